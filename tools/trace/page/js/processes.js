// The table of processes: who makes the calls, and who waits longest.
const processes = (() => {
    const HIGH = 260;
    let list = null;

    function columns() {
        const { d } = model.state;
        const p = name => row => model.state.survey.processes[name][row];
        const number = (title, name) => ({ title, numeric: true, value: p(name), show: row => p(name)(row) ? format.count(p(name)(row)) : '' });
        const size = (title, name) => ({ title, numeric: true, value: p(name), show: row => p(name)(row) ? format.amount(p(name)(row)) : '' });
        const time = (title, name, hint) => ({ title, numeric: true, hint, value: p(name), show: row => format.time(p(name)(row)) });
        const threads = new Uint32Array(d.processes.length);
        d.threads.forEach(([process]) => { threads[process]++; });
        return [
            { title: 'rank', numeric: true, value: row => d.processes[row].rank, show: row => d.processes[row].rank >= 0 ? String(d.processes[row].rank) : '' },
            { title: 'process', numeric: true, value: row => d.processes[row].pid, show: row => String(d.processes[row].pid) },
            { title: 'parent', numeric: true, value: row => d.processes[row].ppid, show: row => String(d.processes[row].ppid) },
            { title: 'host', value: row => d.processes[row].host, show: row => format.text(d.processes[row].host) },
            { title: 'program', value: row => d.processes[row].exe, show: row => format.text(d.processes[row].exe) },
            { title: 'threads', numeric: true, value: row => threads[row], show: row => format.count(threads[row]) },
            { title: 'begins', numeric: true, value: row => d.processes[row].start, show: row => format.time(d.processes[row].start) },
            number('calls', 'calls'), number('failed', 'failed'), size('read', 'bytesRead'), size('written', 'bytesWritten'),
            time('time', 'ns', 'Time in calls, of all its threads'), time('longest', 'longest', 'Its longest call')
        ];
    }

    function fill() {
        const { d, survey: s } = model.state;
        const shown = [...d.processes.keys()].filter(process => s.processes.calls[process] > 0);
        byId('processes-note').textContent = shown.length === d.processes.length ? format.count(shown.length) :
            `${format.count(shown.length)} of ${format.count(d.processes.length)}`;
        list.set(shown);
    }

    // Processes of one program that exec has replaced have one number; the program tells them apart.
    function pick(row) {
        const { pid, exe } = model.state.d.processes[row];
        model.setFilter({ text: `pid:${pid} exe:"${exe.replaceAll('"', '')}"` });
    }

    function start() {
        list = table.create(byId('processes'), columns(), { sort: 11, descending: true, high: HIGH, pick });
        model.on('survey', fill);
    }

    return { start, print: on => list.print(on) };
})();
