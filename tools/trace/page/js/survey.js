// Counts the calls of the span that match the filter: by kind, file, size, duration, server, and over time.
const survey = (() => {
    const BINS = 240;   // of time
    const POWERS = 64;  // of sizes and durations

    const column = n => new Float64Array(n);

    function emptyFiles(n) {
        return {
            calls: column(n), opens: column(n), reads: column(n), writes: column(n), bytesRead: column(n), bytesWritten: column(n),
            meta: column(n), failed: column(n), ns: column(n), forwarded: column(n), processes: column(n)
        };
    }

    function emptyProcesses(n) {
        return { calls: column(n), failed: column(n), ns: column(n), bytesRead: column(n), bytesWritten: column(n), longest: column(n) };
    }

    function emptyServer() {
        return {
            calls: 0, requests: 0, bytesRead: 0, bytesWritten: 0, failed: 0, ns: 0, serverNs: 0, queueNs: 0, longest: 0,
            durations: [], bytesOver: column(BINS), nsOver: column(BINS), serverNsOver: column(BINS), fileNsOver: column(BINS)
        };
    }

    // Adds an amount to bins of time, spread over the duration of the call.
    function spread(bins, state, from, to, amount) {
        const scale = BINS / (state.to - state.from);
        const low = (from - state.from) * scale;
        const high = (to - state.from) * scale;
        const first = Math.floor(low);

        if (Math.floor(high) === first) {
            if (first >= 0 && first < BINS)
                bins[first] += amount;
            return;
        }

        const each = amount / (high - low);
        const last = Math.min(BINS - 1, Math.floor(high));
        for (let bin = Math.max(0, first); bin <= last; bin++)
            bins[bin] += each * (Math.min(high, bin + 1) - Math.max(low, bin));
    }

    // The binary digits of a number.
    function power(value) {
        if (value < 4294967296)
            return 32 - Math.clz32(value);
        return Math.min(POWERS - 1, Math.floor(Math.log2(value)) + 1);
    }

    // Durations whose share of calls is below it, from sorted durations.
    function percentile(sorted, share) {
        return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] : NaN;
    }

    function addToFile(s, d, i, seen) {
        const file = d.file[i];
        const kind = d.kind[i];
        const calls = d.callsOf(i);
        const failed = d.failedOf(i);
        const f = s.files;
        const { read, write, open, meta } = d.kindNumber;

        f.calls[file] += calls;
        f.failed[file] += failed;
        f.ns[file] += d.ns[i];
        if (d.isForwarded(i))
            f.forwarded[file] += calls;
        if (kind === read) {
            f.reads[file] += calls;
            f.bytesRead[file] += d.bytes[i];
        } else if (kind === write) {
            f.writes[file] += calls;
            f.bytesWritten[file] += d.bytes[i];
        } else if (kind === open) {
            f.opens[file] += calls - failed;
        } else if (kind === meta) {
            f.meta[file] += calls;
        }

        const process = d.threads[d.thread[i]][0];
        if (seen.last[file] !== process + 1) {
            seen.last[file] = process + 1;
            const key = file * d.processes.length + process;
            if (!seen.all.has(key)) {
                seen.all.add(key);
                f.processes[file]++;
            }
        }
    }

    function addToProcess(s, d, i) {
        const process = d.threads[d.thread[i]][0];
        const p = s.processes;

        p.calls[process] += d.callsOf(i);
        p.failed[process] += d.failedOf(i);
        p.ns[process] += d.ns[i];
        if (d.kind[i] === d.kindNumber.read)
            p.bytesRead[process] += d.bytes[i];
        else if (d.kind[i] === d.kindNumber.write)
            p.bytesWritten[process] += d.bytes[i];
        p.longest[process] = Math.max(p.longest[process], i < d.events ? d.ns[i] : d.sumLongest[i - d.events]);
    }

    function addToServer(s, d, i) {
        const number = d.server[i] - 1;
        const server = s.servers.get(number) || emptyServer();

        s.servers.set(number, server);
        server.calls += d.callsOf(i);
        server.requests += d.requests[i];
        server.failed += d.failedOf(i);
        server.ns += d.ns[i];
        server.serverNs += d.serverNs[i];
        server.queueNs += d.queueNs[i];
        if (d.kind[i] === d.kindNumber.read)
            server.bytesRead += d.bytes[i];
        else if (d.kind[i] === d.kindNumber.write)
            server.bytesWritten += d.bytes[i];
        if (i < d.events)
            server.durations.push(d.ns[i]);
        server.longest = Math.max(server.longest, i < d.events ? d.ns[i] : d.sumLongest[i - d.events]);
    }

    // Bandwidth is that of all calls whose duration touches the span, so that a long call is seen in the middle of it.
    function addOverTime(s, state, i) {
        const { d } = state;
        if (d.end[i] < state.from || d.start[i] >= state.to)
            return;
        if (d.bytes[i] && s.over[d.kind[i]])
            spread(s.over[d.kind[i]], state, d.start[i], d.end[i], d.bytes[i]);
        if (d.server[i]) {
            const server = s.servers.get(d.server[i] - 1) || emptyServer();
            s.servers.set(d.server[i] - 1, server);
            spread(server.bytesOver, state, d.start[i], d.end[i], d.bytes[i]);
            spread(server.nsOver, state, d.start[i], d.end[i], d.ns[i]);
            spread(server.serverNsOver, state, d.start[i], d.end[i], d.serverNs[i]);
            spread(server.fileNsOver, state, d.start[i], d.end[i], d.serverNs[i] - d.queueNs[i]);
        }
    }

    function addCall(s, d, i, seen) {
        const kind = d.kind[i];
        const calls = d.callsOf(i);
        const { read, write } = d.kindNumber;
        const isSum = i >= d.events;

        s.calls += calls;
        s.failed += d.failedOf(i);
        s.ns += d.ns[i];
        s.kinds.calls[kind] += calls;
        s.kinds.ns[kind] += d.ns[i];
        s.kinds.bytes[kind] += d.bytes[i];
        if (kind === read || kind === write) {
            const size = isSum ? d.sumSize[i - d.events] + (d.bytes[i] ? 1 : 0) : power(d.bytes[i]);
            (kind === read ? s.readSizes : s.writtenSizes)[Math.min(size, POWERS - 1)] += calls;
        }

        const duration = isSum ? d.sumDuration[i - d.events] + 1 : power(d.ns[i]);
        if (d.returned[i])
            s.times[kind][Math.min(duration, POWERS - 1)] += calls;
        if (!isSum && d.returned[i])
            s.durations[s.ndurations++] = d.ns[i];
        if (d.server[i])
            addToServer(s, d, i);
        addToFile(s, d, i, seen);
        addToProcess(s, d, i);
    }

    function make(state) {
        const { d, mask, from, to } = state;
        const nkinds = d.kinds.length;
        const first = model.firstAt(from);
        const last = model.firstAt(to);
        const readTimes = column(POWERS);
        const writtenTimes = column(POWERS);
        const otherTimes = column(POWERS);
        const readOver = column(BINS);
        const writtenOver = column(BINS);
        const s = {
            over: d.kinds.map(kind => ({ read: readOver, write: writtenOver })[kind]), // of other kinds: none
            readOver, writtenOver,
            calls: 0, failed: 0, ns: 0,
            first, last,
            kinds: { calls: column(nkinds), ns: column(nkinds), bytes: column(nkinds) },
            files: emptyFiles(d.files.length),
            processes: emptyProcesses(d.processes.length),
            servers: new Map(),
            readSizes: column(POWERS), writtenSizes: column(POWERS),
            times: d.kinds.map((kind, number) => ({ [d.kindNumber.read]: readTimes, [d.kindNumber.write]: writtenTimes }[number] || otherTimes)),
            readTimes, writtenTimes, otherTimes,
            durations: column(last - first), ndurations: 0,
            binNs: (to - from) / BINS
        };
        const seen = { last: new Uint32Array(d.files.length), all: new Set() };

        for (let i = first; i < last; i++)
            if (mask[i])
                addCall(s, d, i, seen);
        for (let i = d.events; i < d.total; i++)
            if (mask[i] && d.start[i] >= from && d.start[i] < to)
                addCall(s, d, i, seen);
        for (let i = 0; i < d.total; i++)
            if (mask[i])
                addOverTime(s, state, i);

        s.durations = s.durations.subarray(0, s.ndurations).sort();
        for (const server of s.servers.values())
            server.durations.sort((a, b) => a - b);
        return s;
    }

    return { make, percentile, BINS, POWERS };
})();
