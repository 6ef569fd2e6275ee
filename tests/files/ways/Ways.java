// SPDX-License-Identifier: BSD-3-Clause

// One file operation of the matrix of ways, in Java; see ways.c.  The property "self" is the command that runs this program.
import java.io.BufferedWriter;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.TreeSet;

class Ways {
    static Path dir;

    static long sum(byte[] data) {
        long n = 0;
        for (byte b : data)
            n += b & 0xff;
        return n;
    }

    static String present(String name) {
        return Files.exists(dir.resolve(name)) ? "exists" : "missing";
    }

    static void run(String... words) throws IOException, InterruptedException {
        System.out.flush();
        if (new ProcessBuilder(words).inheritIO().start().waitFor() != 0)
            throw new IOException(words[0] + " failed");
    }

    static boolean lock() throws IOException {
        return FileChannel.open(dir.resolve("log"), StandardOpenOption.READ, StandardOpenOption.WRITE).tryLock() != null;
    }

    static void read() throws IOException {
        byte[] data = Files.readAllBytes(dir.resolve("in"));
        long lines = new String(data, StandardCharsets.US_ASCII).chars().filter(c -> c == '\n').count();
        System.out.println("lines " + lines + " sum " + sum(data));
    }

    static void write() throws IOException {
        try (BufferedWriter out = Files.newBufferedWriter(dir.resolve("new"), StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW)) {
            for (int i = 0; i < 2000; i++)
                out.write("line " + i + "\n");
        }
        System.out.println("written");
    }

    static void list() throws IOException {
        TreeSet<String> names = new TreeSet<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(dir)) {
            for (Path entry : entries)
                names.add(entry.getFileName().toString());
        }
        for (String name : names)
            System.out.println(name);
    }

    static void append() throws IOException {
        for (String line : new String[] {"second\n", "third\n"})
            Files.writeString(dir.resolve("log"), line, StandardOpenOption.APPEND);
        System.out.println("appended");
    }

    static void map() throws IOException {
        try (FileChannel in = FileChannel.open(dir.resolve("in"), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            byte[] data = new byte[(int) in.size()];
            in.map(FileChannel.MapMode.PRIVATE, 0, data.length).get(data);
            System.out.println("sum " + sum(data));
        }
    }

    static void share() throws IOException {
        try (FileChannel file = FileChannel.open(dir.resolve("map"), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            MappedByteBuffer data = file.map(FileChannel.MapMode.READ_WRITE, 0, file.size());
            data.put("mapped".getBytes(StandardCharsets.US_ASCII));
            data.force();
        }
        System.out.println("mapped");
    }

    public static void main(String[] words) throws IOException, InterruptedException {
        dir = Path.of(words[1]);
        if (words.length > 2)
            System.setOut(new PrintStream(new FileOutputStream(dir.resolve("printed").toFile()), true));

        switch (words[0]) {
        case "read" -> read();
        case "write" -> write();
        case "list" -> list();
        case "stat" -> {
            System.out.println("size " + Files.size(dir.resolve("in")));
            System.out.println("none " + present("none"));
        }
        case "append" -> append();
        case "rename" -> {
            Files.move(dir.resolve("old"), dir.resolve("moved"));
            System.out.println("old " + present("old"));
        }
        case "mmap" -> map();
        case "share" -> share();
        case "exec" -> run("cat", dir.resolve("log").toString());
        case "lock" -> {
            if (!lock())
                throw new IOException("the lock is held");
            run(System.getProperty("self"), "trylock", dir.toString());
        }
        case "trylock" -> System.out.println(lock() ? "free" : "held");
        case "print" -> {
            for (int i = 0; i < 3; i++)
                System.out.println("printed " + i);
        }
        default -> throw new IOException("no operation " + words[0]);
        }
    }
}
