#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Node.js and Java watch a file below a prefix: the kernel cannot tell them of changes, so they get an error and poll; and Node.js reads and
# writes without io_uring.  For scripts/check-nightly.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

# watcher NAME PROGRAM COMMAND...: it prints "ok" as its last line, and no "not refused"
watcher() {
    watcher_name=$1 watcher_program=$2
    shift 2
    if ! command -v "$watcher_program" >/dev/null; then
        mp_skip "$watcher_name" "no $watcher_program here"
        return
    fi
    mp_wanted "$watcher_name" || return 0
    mkdir "$mp_dir/kept"
    fwd_servers "$mp_dir/kept" "$@" >"$mp_dir/out"
    test "$(tail -n 1 "$mp_dir/out")" = ok && ! grep -qx 'not refused' "$mp_dir/out"
    mp_report $? "$watcher_name" "$mp_dir/out"
    rm -rf "$mp_dir/kept"
}

cat >"$mp_dir/watch.js" <<'X'
const fs = require('fs');
const file = '/fwd/watched';
fs.writeFileSync(file, 'one');
try {
    fs.watch(file, () => {}).on('error', e => console.log('error', e.code));
    console.log('not refused');
} catch (e) {
    console.log(e.code);
}
fs.watchFile(file, { interval: 50 }, now => {
    console.log(now.size === 6 ? 'ok' : 'size ' + now.size);
    process.exit(0);
});
setTimeout(() => fs.appendFileSync(file, 'two'), 200);
X
cat >"$mp_dir/ring.js" <<'X'
const fs = require('fs/promises');
(async () => {
    const text = 'x'.repeat(100000);
    await fs.writeFile('/fwd/file', text);
    const f = await fs.open('/fwd/file', 'r+');
    await f.write('y', 5);
    await f.datasync();
    await f.close();
    const back = await fs.readFile('/fwd/file', 'utf8');
    console.log(back.length === 100000 && back[5] === 'y' ? 'ok' : 'other data: ' + back.length);
})();
X
cat >"$mp_dir/Watch.java" <<'X'
import java.io.IOException;
import java.nio.file.*;

public class Watch {
    public static void main(String[] args) throws Exception {
        Path dir = Path.of("/fwd");
        Path file = dir.resolve("watched");
        Files.writeString(file, "one");
        try (WatchService service = FileSystems.getDefault().newWatchService()) {
            dir.register(service, StandardWatchEventKinds.ENTRY_MODIFY);
            System.out.println("not refused");
            return;
        } catch (IOException e) {
            System.out.println(e);
        }
        long before = Files.size(file);
        Files.writeString(file, "two", StandardOpenOption.APPEND);
        System.out.println(Files.size(file) == before + 3 ? "ok" : "size " + Files.size(file));
    }
}
X
watcher "Node.js: fs.watch gives an error, fs.watchFile polls" node node "$mp_dir/watch.js"
watcher "Node.js with io_uring reads what it wrote" node env UV_USE_IO_URING=1 node "$mp_dir/ring.js"
watcher "Java: a WatchService throws, and files are as they were" javac java "$mp_dir/Watch.java"
mp_done
