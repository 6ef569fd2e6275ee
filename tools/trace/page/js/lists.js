// The tables of files and of calls, and what is known of one call.
const lists = (() => {
    const SYSTEM = /^\/(usr|lib|lib64|etc|proc|sys|dev|bin|sbin)(\/|$)/;
    const HIGH_CALLS = 290;
    let files = null;
    let calls = null;

    const isPath = name => name.startsWith('/');

    // ---- one call ----

    function errnoOf(d, i) {
        if (!d.errno[i])
            return '';
        const [name, text] = d.errnos[d.errno[i]] || ['?', ''];
        return `${name} (${text})`;
    }

    const resultOf = (d, i) => d.returned[i] ? format.count(d.result[i]) : 'had not returned';
    const numberOr = (value, unit) => value >= 0 ? format.count(value) + (unit || '') : '';

    function sumFields(d, i) {
        const k = i - d.events;
        return [
            ['calls', `${format.count(d.sumCalls[k])} ${d.names[d.name[i]][0]}`], ['failed', format.count(d.sumFailed[k])],
            ['from', format.time(d.start[i])], ['to', format.time(d.end[i])], ['time in calls', format.time(d.ns[i])],
            ['longest', format.time(d.sumLongest[k])], ['bytes', format.count(d.bytes[i])]
        ];
    }

    function callFields(d, i) {
        return [
            ['call', d.names[d.name[i]][0]], ['number', format.count(d.idOf(i))], ['start', `${format.count(d.start[i])} ns`],
            ['duration', d.returned[i] ? `${format.time(d.ns[i])} (${format.count(d.ns[i])} ns)` : 'had not returned'],
            ['result', resultOf(d, i)], ['error', d.bits[i] & 1 ? errnoOf(d, i) : ''], ['descriptor', numberOr(d.fd[i] - 1)],
            ['offset', numberOr(d.offset[i])], ['length', numberOr(d.length[i] - 1)], ['flags', d.flags[i] ? '0x' + (d.flags[i] - 1).toString(16) : '']
        ];
    }

    function fields(i) {
        const { d } = model.state;
        const [number, tid] = d.threads[d.thread[i]];
        const process = d.processes[number];
        const list = i < d.events ? callFields(d, i) : sumFields(d, i);

        list.push(['file', format.text(d.files[d.file[i]])], ['second file', format.text(d.files[d.file2[i]])]);
        list.push(['rank', process.rank >= 0 ? String(process.rank) : ''], ['process', String(process.pid)], ['thread', String(tid)]);
        list.push(['host', format.text(process.host)], ['program', format.text(process.exe)]);
        list.push(['side', d.sideOf(i)], ['peer', d.peer[i] ? `rank ${d.peer[i] - 1}` : '']);
        if (d.server[i])
            list.push(['server', String(d.server[i] - 1)], ['requests', format.count(d.requests[i])], ['at the server', format.time(d.serverNs[i])],
                ['in its queue', format.time(d.queueNs[i])], ['on the way', format.time(Math.max(0, d.ns[i] - d.serverNs[i]))]);
        return list.filter(([, value]) => value !== '');
    }

    // For the text beside the pointer.
    function lines(i) {
        const { d } = model.state;
        const [number, tid] = d.threads[d.thread[i]];
        const process = d.processes[number];
        const name = d.names[d.name[i]][0];
        const list = [i < d.events ? name : `${format.count(d.callsOf(i))} calls of ${name}, as a sum`];

        if (d.file[i])
            list.push(format.tail(d.files[d.file[i]], 90));
        list.push(`${d.returned[i] ? format.time(d.ns[i]) : 'had not returned'} at ${format.time(d.start[i])}`);
        if (d.bytes[i])
            list.push(`${format.bytes(d.bytes[i])}${d.offset[i] >= 0 ? ' at offset ' + format.count(d.offset[i]) : ''}`);
        if (d.failedOf(i))
            list.push(i < d.events ? errnoOf(d, i) : `${format.count(d.failedOf(i))} failed`);
        if (d.server[i])
            list.push(`server ${d.server[i] - 1}: ${format.time(d.serverNs[i])} there, ${format.time(d.queueNs[i])} of it in the queue`);
        list.push(`${process.rank >= 0 ? 'rank ' + process.rank + ', ' : ''}process ${process.pid}, thread ${tid}`);
        return list;
    }

    function showCall() {
        const { call, d } = model.state;
        const node = byId('details');
        node.replaceChildren();
        if (call < 0)
            return;

        const list = make('dl');
        for (const [name, value] of fields(call)) {
            const term = make('div', {}, make('dt', { textContent: name }), make('dd', { textContent: value }));
            term.dataset.field = name;
            list.append(term);
        }

        const buttons = make('div', { className: 'buttons' });
        const button = (text, action) => {
            const one = make('button', { type: 'button', textContent: text });
            one.addEventListener('click', action);
            buttons.append(one);
        };
        if (d.file[call])
            button('Only this file', () => model.setFilter({ file: d.file[call] }));
        button('Zoom to it', () => model.setTime(d.start[call] - d.ns[call], d.end[call] + d.ns[call]));
        button('Close', () => model.select(-1));
        node.append(list, buttons);
    }

    // ---- files ----

    function fileColumns() {
        const { d } = model.state;
        const f = name => row => model.state.survey.files[name][row];
        const number = (title, name, hint) => ({ title, numeric: true, hint, value: f(name), show: row => f(name)(row) ? format.count(f(name)(row)) : '' });
        const size = (title, name) => ({ title, numeric: true, value: f(name), show: row => f(name)(row) ? format.amount(f(name)(row)) : '' });
        return [
            { title: 'path', value: row => d.files[row], show: row => format.text(d.files[row]) },
            number('processes', 'processes', 'Processes that made calls on it'),
            number('calls', 'calls'), number('opens', 'opens', 'Opens that succeeded'),
            number('reads', 'reads'), size('read', 'bytesRead'), number('writes', 'writes'), size('written', 'bytesWritten'),
            number('names', 'meta', 'Calls on its name and attributes'), number('failed', 'failed'),
            { title: 'time', numeric: true, hint: 'Time in calls', value: f('ns'), show: row => format.time(f('ns')(row)) },
            { title: 'side', value: row => f('forwarded')(row) ? 'forwarded' : 'local' }
        ];
    }

    const USES = {
        '': () => true,
        read: (f, i) => f.bytesRead[i] > 0 && !f.bytesWritten[i],
        written: (f, i) => f.bytesWritten[i] > 0 && !f.bytesRead[i],
        both: (f, i) => f.bytesRead[i] > 0 && f.bytesWritten[i] > 0,
        names: (f, i) => !f.bytesRead[i] && !f.bytesWritten[i],
        failed: (f, i) => f.failed[i] > 0,
        forwarded: (f, i) => f.forwarded[i] > 0
    };

    function fillFiles() {
        const { d } = model.state;
        const f = model.state.survey.files;
        const part = byId('files-text').value.toLowerCase();
        const fits = USES[byId('files-use').value];
        const without = byId('files-system').checked;
        const list = [];
        let all = 0;

        for (let i = 1; i < d.files.length; i++) {
            if (!f.calls[i])
                continue;
            all++;
            if (fits(f, i) && (!part || d.files[i].toLowerCase().includes(part)) && !(without && (SYSTEM.test(d.files[i]) || !isPath(d.files[i]))))
                list.push(i);
        }
        byId('files-note').textContent = list.length === all ? `${format.count(all)}` : `${format.count(list.length)} of ${format.count(all)}`;
        files.set(list);
    }

    // ---- calls ----

    function callColumns() {
        const { d } = model.state;
        const process = row => d.processes[d.threads[d.thread[row]][0]];
        return [
            { title: 'start', numeric: true, value: row => d.start[row], show: row => format.time(d.start[row]) },
            { title: 'call', value: row => d.names[d.name[row]][0] },
            { title: 'file', value: row => d.files[d.file[row]], show: row => format.text(d.files[d.file[row]]) },
            { title: 'offset', numeric: true, value: row => d.offset[row], show: row => numberOr(d.offset[row]) },
            { title: 'length', numeric: true, value: row => d.length[row] - 1, show: row => numberOr(d.length[row] - 1) },
            { title: 'result', numeric: true, value: row => d.result[row], show: row => resultOf(d, row) },
            { title: 'error', value: row => d.bits[row] & 1 ? (d.errnos[d.errno[row]] || ['?'])[0] : '' },
            { title: 'duration', numeric: true, value: row => d.ns[row], show: row => d.returned[row] ? format.time(d.ns[row]) : '' },
            { title: 'at server', numeric: true, value: row => d.serverNs[row], show: row => d.server[row] ? format.time(d.serverNs[row]) : '' },
            { title: 'in queue', numeric: true, value: row => d.queueNs[row], show: row => d.server[row] ? format.time(d.queueNs[row]) : '' },
            { title: 'rank', numeric: true, value: row => process(row).rank, show: row => process(row).rank >= 0 ? String(process(row).rank) : '' },
            { title: 'thread', numeric: true, value: row => d.threads[d.thread[row]][1], show: row => String(d.threads[d.thread[row]][1]) }
        ];
    }

    function fillCalls() {
        const { d, mask, survey: s } = model.state;
        const list = new Uint32Array(s.last - s.first);
        let n = 0;
        for (let i = s.first; i < s.last; i++)
            if (mask[i])
                list[n++] = i;
        byId('calls-note').textContent = format.count(n) + (n > table.MAX_SORTED ? '; the longest lists show their first 5,000 when they are sorted by another column than start' : '') +
            (d.sums ? '; sums of calls are not listed' : '');
        calls.set(list.subarray(0, n));
    }

    function start() {
        files = table.create(byId('files'), fileColumns(), {
            sort: 10, descending: true, isPicked: row => row === model.state.file,
            pick: row => model.setFilter({ file: row === model.state.file ? 0 : row })
        });
        calls = table.create(byId('calls'), callColumns(), {
            sort: 0, descending: false, natural: 0, high: HIGH_CALLS, isPicked: row => row === model.state.call, pick: row => model.select(row, true)
        });
        for (const id of ['files-text', 'files-use', 'files-system'])
            byId(id).addEventListener('input', fillFiles);
        model.on('survey', () => { fillFiles(); fillCalls(); });
        model.on('call', () => { showCall(); calls.draw(); });
    }

    const print = on => { files.print(on); calls.print(on); };

    return { start, lines, print };
})();
