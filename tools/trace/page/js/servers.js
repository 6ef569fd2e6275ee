// The servers as their clients saw them: calls, bytes and times of the forwarded calls.
const servers = (() => {
    const COLOURS = 8;
    const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
    let list = null;

    const of = number => model.state.survey.servers.get(number);
    const numbers = () => [...model.state.survey.servers.keys()].sort((a, b) => a - b);

    function columns() {
        const number = (title, get, hint) => ({ title, numeric: true, hint, value: row => get(of(row)), show: row => format.count(get(of(row))) });
        const time = (title, get, hint) => ({ title, numeric: true, hint, value: row => get(of(row)), show: row => format.time(get(of(row))) });
        const size = (title, get) => ({ title, numeric: true, value: row => get(of(row)), show: row => format.amount(get(of(row))) });
        return [
            { title: 'server', numeric: true, value: row => row, show: row => String(row) },
            number('calls', s => s.calls), number('requests', s => s.requests, 'Messages to the servers for these calls'), number('failed', s => s.failed),
            size('read', s => s.bytesRead), size('written', s => s.bytesWritten),
            time('time in calls', s => s.ns, 'As the client waited'),
            time('in its queue', s => s.queueNs, 'Requests that waited for their turn, or for a lock'),
            time('at its files', s => s.serverNs - s.queueNs, 'What the servers worked on the calls'),
            time('on the way', s => Math.max(0, s.ns - s.serverNs), 'The rest: client and network'),
            time('half below', s => survey.percentile(s.durations, 0.5), 'Durations of calls: median'),
            time('99 % below', s => survey.percentile(s.durations, 0.99)),
            time('longest', s => s.longest)
        ];
    }

    function rate() {
        const s = model.state.survey;
        const c = getComputedStyle(document.documentElement);
        const perSecond = bins => bins.map(bytes => bytes / s.binNs * 1e9);
        const series = (number, k) => ({
            label: `server ${number}`, stroke: c.getPropertyValue(`--series-${k % COLOURS}`).trim(), dash: DASHES[Math.floor(k / COLOURS) % DASHES.length],
            width: 1.5, points: { show: false }, value: (chart, value) => value === null ? '' : format.rate(value)
        });
        return {
            options: {
                ...charts.overTime,
                scales: { x: charts.timeScale(), y: { range: (chart, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
                axes: [charts.timeAxis(), charts.axis({ size: 80, values: (chart, ticks) => ticks.map(format.rate) })],
                series: [{ label: 'at', value: charts.atTime }, ...numbers().map(series)]
            },
            data: [charts.times(), ...numbers().map(number => perSecond(of(number).bytesOver))]
        };
    }

    // Calls in progress: those of them that a server works on, those that it has, and all of them.
    function time() {
        const s = model.state.survey;
        const c = canvas.colours();
        const chosen = byId('servers-one').value;
        const all = chosen === '' ? numbers() : numbers().filter(number => String(number) === chosen);
        const sum = name => {
            const bins = new Float64Array(survey.BINS);
            for (const number of all)
                of(number)[name].forEach((value, bin) => { bins[bin] += value / s.binNs; });
            return bins;
        };
        const waiting = sum('nsOver');
        const there = sum('serverNsOver');
        const working = sum('fileNsOver');
        const between = (above, below) => (chart, value, series, k) => k === null ? '' : show(chart, Math.max(0, above[k] - below[k]));
        const show = (chart, value) => value === null ? '' : `${value.toFixed(2)} calls`;
        return {
            options: {
                ...charts.overTime,
                scales: { x: charts.timeScale(), y: { range: (chart, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
                axes: [charts.timeAxis(), charts.axis({ size: 60, label: 'calls in progress', labelSize: 16, labelFont: '12px system-ui, sans-serif' })],
                series: [{ label: 'at', value: charts.atTime },
                    { label: 'on the way (client, network)', stroke: c.faint, fill: c.faint + '55', width: 1, points: { show: false },
                        value: between(waiting, there) },
                    { label: 'in the queue', stroke: c.server, fill: c.server + '44', width: 1, points: { show: false }, value: between(there, working) },
                    { label: 'at the files', stroke: c.server, fill: c.server + '99', width: 1, points: { show: false }, value: show }]
            },
            data: [charts.times(), waiting, there, working]
        };
    }

    function fill() {
        const all = numbers();
        const calls = all.reduce((sum, number) => sum + of(number).calls, 0);
        const { d } = model.state;
        byId('servers-note').textContent = all.length ? `${format.count(calls)} forwarded calls, as their clients recorded them` : '';
        byId('servers-card').classList.toggle('empty', !all.length);
        if (all.length)
            list.set(all);
        else
            byId('servers-note').textContent = d.server.some(server => server) ?
                'none of these calls was forwarded' : 'no call of this run was forwarded to an I/O server';
    }

    function start() {
        const { d } = model.state;
        const all = [...new Set(d.server)].filter(server => server).sort((a, b) => a - b);
        byId('servers-one').append(...all.map(server => make('option', { value: String(server - 1), textContent: `server ${server - 1}` })));
        list = table.create(byId('servers'), columns(), {
            sort: 0, descending: false, high: 200,
            pick: row => { model.setFilter({ text: `server:${row}` }); byId('search').value = model.state.text; }
        });
        if (all.length) {
            charts.add('servers-rate', rate);
            charts.add('servers-time', time);
        }
        byId('servers-one').addEventListener('change', charts.drawAll);
        model.on('survey', fill);
    }

    return { start };
})();
