// The rows of the timeline: which calls are in which row, by their start.
const rows = (() => {
    const MAX_NAME = 12;

    // Short enough for the room on the left, with the number that tells rows apart.
    function nameOf(process, tid, by) {
        const exe = format.text(process.exe.split('/').pop() || '?');
        const short = exe.length > MAX_NAME ? exe.slice(0, MAX_NAME - 1) + '…' : exe;
        const rank = process.rank >= 0 ? `rank ${process.rank} · ` : '';
        if (by === 'rank' && process.rank >= 0)
            return `rank ${process.rank}`;
        if (by === 'thread' && tid !== process.pid)
            return `    ${rank}thread ${tid}`;
        return `${rank}${short} ${process.pid}`;
    }

    // Rank, then start of the process; the first thread of a process is above its others.
    function order(d, threads) {
        return threads.sort((a, b) => {
            const [p, tidP] = d.threads[a];
            const [q, tidQ] = d.threads[b];
            const rank = number => d.processes[number].rank < 0 ? Infinity : d.processes[number].rank;
            if (rank(p) !== rank(q))
                return rank(p) - rank(q);
            if (p !== q)
                return d.processes[p].start - d.processes[q].start || p - q;
            const first = tid => tid === d.processes[p].pid ? 0 : 1;
            return first(tidP) - first(tidQ) || a - b;
        });
    }

    // by: thread, process or rank (a process without rank has a row of its own)
    function make(d, by) {
        const keys = new Map();
        const rowOf = new Uint32Array(d.threads.length);
        const list = [];

        for (const thread of order(d, d.threads.map((pair, number) => number))) {
            const [number, tid] = d.threads[thread];
            const process = d.processes[number];
            let key = `t${thread}`;
            if (by === 'process')
                key = `p${number}`;
            else if (by === 'rank')
                key = process.rank >= 0 ? `r${process.rank}` : `p${number}`;
            if (!keys.has(key)) {
                keys.set(key, list.length);
                list.push({ name: nameOf(process, tid, by), process, threads: new Set(), calls: null, reach: null });
            }
            rowOf[thread] = keys.get(key);
            list[keys.get(key)].threads.add(thread);
        }

        return fill(d, list, rowOf);
    }

    // Gives each row its calls in the order of their start, and how far the calls up to each one reach.
    function fill(d, list, rowOf) {
        const counts = new Uint32Array(list.length);
        const all = inOrder(d);
        for (let i = 0; i < d.total; i++)
            counts[rowOf[d.thread[i]]]++;
        list.forEach((row, number) => {
            row.calls = new Uint32Array(counts[number]);
            row.reach = new Float64Array(counts[number]);
        });

        counts.fill(0);
        const calls = list.map(row => row.calls);
        const reach = list.map(row => row.reach);
        const far = new Float64Array(list.length).fill(-Infinity);
        const { thread, end } = d;
        for (let k = 0; k < d.total; k++) {
            const i = all ? all[k] : k;
            const number = rowOf[thread[i]];
            const at = counts[number]++;
            if (end[i] > far[number])
                far[number] = end[i];
            calls[number][at] = i;
            reach[number][at] = far[number];
        }
        return list;
    }

    // Calls are ordered already; sums are not.  null: there are calls only.
    function inOrder(d) {
        if (!d.sums)
            return null;
        const all = Uint32Array.from({ length: d.total }, (none, i) => i);
        return all.sort((a, b) => d.start[a] - d.start[b] || a - b);
    }

    // The first call of a row that may reach into a moment.
    function firstReaching(row, ns) {
        let low = 0;
        let high = row.calls.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (row.reach[middle] < ns)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    return { make, firstReaching };
})();
