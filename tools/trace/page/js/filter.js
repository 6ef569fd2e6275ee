// The language of the search field, and which calls match it.
const filter = (() => {
    const WORD = /(-?)(?:([a-z]+)(:|<=|>=|<|>|=))?("[^"]*"|\S+)/g;
    // A call that has not returned has no duration.
    const durationOf = (d, i) => d.returned[i] ? d.ns[i] : NaN;

    const NUMBERS = {
        bytes: (d, i) => d.bytes[i],
        length: (d, i) => i < d.events && d.length[i] ? d.length[i] - 1 : NaN,
        offset: (d, i) => d.offset[i] >= 0 ? d.offset[i] : NaN,
        result: (d, i) => i < d.events && d.returned[i] ? d.result[i] : NaN,
        fd: (d, i) => i < d.events && d.fd[i] ? d.fd[i] - 1 : NaN,
        peer: (d, i) => d.peer[i] ? d.peer[i] - 1 : NaN,
        server: (d, i) => d.server[i] ? d.server[i] - 1 : NaN,
        ns: (d, i) => durationOf(d, i),
        us: (d, i) => durationOf(d, i) / 1e3,
        ms: (d, i) => durationOf(d, i) / 1e6
    };
    const COMPARE = {
        '<': (a, b) => a < b, '<=': (a, b) => a <= b, '>': (a, b) => a > b, '>=': (a, b) => a >= b, '=': (a, b) => a === b, ':': (a, b) => a === b
    };

    const table = (list, match) => Uint8Array.from(list, (item, i) => match(item, i) ? 1 : 0);
    const has = parts => text => parts.some(part => text.toLowerCase().includes(part));

    function byFile(d, parts) {
        const match = has(parts);
        const good = table(d.files, match);
        return i => good[d.file[i]] || (d.file2[i] && good[d.file2[i]]);
    }

    function byThread(d, match) {
        const good = table(d.threads, ([process, tid]) => match(d.processes[process], tid));
        return i => good[d.thread[i]];
    }

    function byErrno(d, parts) {
        const names = number => (d.errnos[number] || ['?'])[0].toLowerCase();
        const good = new Uint8Array(65536);
        for (const number of Object.keys(d.errnos))
            good[number] = parts.some(part => part === number || part === names(number)) ? 1 : 0;
        return i => good[d.errno[i]];
    }

    function byName(d, match) {
        const good = table(d.names, ([name, kind]) => match(name, d.kinds[kind]));
        return i => good[d.name[i]];
    }

    // A word without a key: part of a path or a name, or an error.
    function anywhere(d, word) {
        const file = byFile(d, [word]);
        const name = byName(d, name => name.toLowerCase().includes(word));
        const errno = byErrno(d, [word]);
        return i => name(i) || file(i) || errno(i);
    }

    const isOne = (parts, value) => parts.includes(String(value));
    const KEYS = {
        kind: (d, parts) => byName(d, (name, kind) => parts.includes(kind)),
        call: (d, parts) => byName(d, name => has(parts)(name)),
        path: byFile,
        errno: byErrno,
        rank: (d, parts) => byThread(d, process => isOne(parts, process.rank)),
        pid: (d, parts) => byThread(d, process => isOne(parts, process.pid)),
        tid: (d, parts) => byThread(d, (process, tid) => isOne(parts, tid)),
        host: (d, parts) => byThread(d, process => has(parts)(process.host)),
        exe: (d, parts) => byThread(d, process => has(parts)(process.exe)),
        side: (d, parts) => i => parts.includes(d.sideOf(i))
    };

    // One test for each word, or a sentence.
    function compile(d, text) {
        const tests = [];
        for (const [, minus, key, operator, rest] of text.matchAll(WORD)) {
            const word = rest.replaceAll('"', '').toLowerCase();
            const parts = word.split(',').filter(part => part !== '');
            let test;

            if (!key) {
                test = anywhere(d, word);
            } else if (KEYS[key] && operator === ':') {
                test = KEYS[key](d, parts);
            } else if (NUMBERS[key]) {
                const wanted = parts.map(Number);
                if (!wanted.length || wanted.some(Number.isNaN))
                    return { wrong: `“${rest}” is no number: ${key} takes one` };
                test = i => wanted.some(value => COMPARE[operator](NUMBERS[key](d, i), value));
            } else {
                return { wrong: `“${key}${operator}” is no search word; Help lists them, and quotes search for a text with it` };
            }
            tests.push(minus ? i => !test(i) : test);
        }
        return { tests, wrong: '' };
    }

    function apply(state) {
        const { d, hidden, side, failed, file, text } = state;
        const mask = new Uint8Array(d.total).fill(1);
        const { tests, wrong } = compile(d, text);

        if (wrong)
            return { mask, wrong };
        if (hidden.size) {
            const shown = table(d.kinds, (kind, number) => !hidden.has(number));
            tests.push(i => shown[d.kind[i]]);
        }
        if (side)
            tests.push(KEYS.side(d, [side]));
        if (failed)
            tests.push(i => d.failedOf(i) > 0);
        if (file)
            tests.push(i => d.file[i] === file || d.file2[i] === file);

        for (const test of tests)
            for (let i = 0; i < mask.length; i++)
                if (mask[i] && !test(i))
                    mask[i] = 0;
        return { mask, wrong };
    }

    return { apply };
})();
