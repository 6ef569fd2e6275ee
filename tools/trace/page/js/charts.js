// The charts of uPlot: bandwidth over time, sizes and durations.
const charts = (() => {
    const HEIGHT = 230;
    const made = []; // { node, build, chart }

    const seconds = ns => ns / 1e9;

    function axis(change) {
        const c = canvas.colours();
        return Object.assign({
            stroke: c.faint, font: '12px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif',
            grid: { stroke: c.line, width: 1 }, ticks: { stroke: c.line, width: 1, size: 5 }
        }, change);
    }

    // An axis of time, in seconds of the run.
    function timeAxis() {
        return axis({
            space: 90, size: 34,
            values: (chart, ticks) => ticks.map(tick => format.tick(tick * 1e9, ticks.length > 1 ? (ticks[1] - ticks[0]) * 1e9 : 1, model.state.to))
        });
    }

    function timeScale() {
        const { from, to } = model.state;
        return { time: false, range: [seconds(from), seconds(to)] };
    }

    // What the legend of a chart says of the cursor's time.
    const atTime = (chart, value) => value === null ? '' : format.tick(value * 1e9, format.step(model.state.survey.binNs, 2), model.state.to);

    // The middle of each bin of time.
    function times() {
        const { from } = model.state;
        const { binNs } = model.state.survey;
        return Float64Array.from({ length: survey.BINS }, (none, bin) => seconds(from + (bin + 0.5) * binNs));
    }

    // A drag over a chart of time selects that time everywhere.
    const overTime = {
        cursor: { sync: { key: 'time' }, drag: { x: true, y: false, setScale: false } },
        hooks: {
            setSelect: [chart => {
                const { left, width } = chart.select;
                if (width < 4)
                    return;
                const from = chart.posToVal(left, 'x') * 1e9;
                const to = chart.posToVal(left + width, 'x') * 1e9;
                chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
                model.setTime(from, to, 0);
            }]
        }
    };

    // build: gives { options, data } for uPlot of the state as it is, or { nothing: a sentence }.
    function add(id, build) {
        made.push({ node: byId(id), build, chart: null });
    }

    function draw(one) {
        const { options, data, nothing } = one.build();
        if (one.chart)
            one.chart.destroy();
        one.chart = null;
        one.node.replaceChildren();
        if (nothing) {
            one.node.append(make('p', { className: 'nothing', textContent: nothing }));
            return;
        }

        one.chart = new uPlot({ width: Math.max(200, one.node.clientWidth), height: HEIGHT, padding: [8, 30, 0, 0], ...options }, data, one.node);
    }

    const drawAll = () => { if (model.state.survey) made.forEach(draw); };

    function bandwidth() {
        const s = model.state.survey;
        const c = canvas.colours();
        if (![...s.readOver, ...s.writtenOver].some(bytes => bytes > 0))
            return { nothing: 'These calls read and wrote no data.' };

        const perSecond = bins => bins.map(bytes => bytes / s.binNs * 1e9);
        const series = (label, stroke, dash) => ({
            label, stroke, dash, width: 1.5, fill: stroke + '33', points: { show: false }, value: (chart, value) => value === null ? '' : format.rate(value)
        });
        return {
            options: {
                ...overTime,
                scales: { x: timeScale(), y: { range: (chart, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
                axes: [timeAxis(), axis({ size: 80, values: (chart, ticks) => ticks.map(format.rate) })],
                series: [{ label: 'at', value: atTime },
                    series('read', c.read), series('written', c.write, [6, 3])]
            },
            data: [times(), perSecond(s.readOver), perSecond(s.writtenOver)]
        };
    }

    // A click on a bar filters by its range; it takes the place of an earlier range.
    function pickRange(chart, key, kinds) {
        chart.over.addEventListener('click', event => {
            const power = Math.round(chart.posToVal(event.offsetX, 'x'));
            const low = power > 0 ? Math.pow(2, power - 1) : 0;
            const others = model.state.text.split(/\s+/).filter(word => word && !word.startsWith(key + '>=') && !word.startsWith(key + '<') && word !== kinds);
            model.setFilter({ text: [...others, ...(kinds ? [kinds] : []), `${key}>=${low}`, `${key}<${Math.pow(2, power)}`].join(' ') });
        });
    }

    // A histogram by powers of two with a bar for each series, on a logarithmic axis of calls.
    // key: the search word of its values; kinds: the search word of its calls, if they are not all
    function histogram(all, name, tickOf, key, kinds) {
        if (!all.some(one => one.values.some(calls => calls > 0)))
            return { nothing: 'There are no such calls.' };

        const used = all.map(one => [...one.values].map((value, power) => value ? power : -1)).flat().filter(power => power >= 0);
        const first = used.length ? Math.max(0, Math.min(...used) - 1) : 0;
        const last = used.length ? Math.max(...used) + 1 : 8;
        const xs = Array.from({ length: last - first + 1 }, (none, k) => first + k);
        const width = 0.84 / all.length;
        const bars = k => (chart, series, from, to) => uPlot.paths.bars({
            size: [width], align: 1,
            disp: { x0: { unit: 1, values: chart => xs.map(x => x - 0.42 + k * width) }, size: { unit: 1, values: () => xs.map(() => width * 0.95) } }
        })(chart, series, from, to);
        const most = Math.max(1, ...all.map(one => Math.max(...one.values)));

        return {
            options: {
                cursor: { drag: { x: false, y: false }, points: { show: false } },
                hooks: { ready: [chart => pickRange(chart, key, kinds)] },
                scales: { x: { time: false, range: [first - 0.5, last + 0.5] }, y: { distr: 3, range: [0.7, Math.pow(10, Math.ceil(Math.log10(most * 1.05)))] } },
                axes: [
                    axis({ space: 55, size: 34, incrs: [1, 2, 3, 4, 5, 6, 8, 10], values: (chart, ticks) => ticks.map(tick => Number.isInteger(tick) ? tickOf(tick) : '') }),
                    axis({ size: 60, label: 'calls', labelSize: 16, labelFont: '12px system-ui, sans-serif', values: (chart, ticks) => ticks.map(tick => Math.log10(tick) % 1 === 0 ? format.short(tick) : '') })
                ],
                series: [{ label: name, value: (chart, value) => value === null ? '' : `${tickOf(value)} – ${tickOf(value + 1)}` },
                    ...all.map((one, k) => ({
                        label: one.label, stroke: one.colour, fill: one.colour, width: 0, points: { show: false }, paths: bars(k),
                        value: (chart, value) => value === null ? '0' : format.count(value)
                    }))]
            },
            data: [xs, ...all.map(one => xs.map(x => one.values[x] || null))]
        };
    }

    function sizes() {
        const s = model.state.survey;
        const c = canvas.colours();
        const tick = power => power === 0 ? '0 B' : format.bytes(Math.pow(2, power - 1));
        return histogram([{ label: 'read', colour: c.read, values: s.readSizes }, { label: 'written', colour: c.write, values: s.writtenSizes }], 'bytes', tick, 'bytes', 'kind:read,write');
    }

    function latency() {
        const s = model.state.survey;
        const c = canvas.colours();
        const tick = power => power === 0 ? '0 ns' : format.time(Math.pow(2, power - 1));
        return histogram([{ label: 'read', colour: c.read, values: s.readTimes }, { label: 'write', colour: c.write, values: s.writtenTimes },
            { label: 'other', colour: c.faint, values: s.otherTimes }], 'time', tick, 'ns', '');
    }

    function notes() {
        const s = model.state.survey;
        const { read, write } = model.state.d.kindNumber;
        const part = share => format.time(survey.percentile(s.durations, share));
        byId('sizes-note').textContent = `read ${format.amount(s.kinds.bytes[read])} in ${format.count(s.kinds.calls[read])} calls, ` +
            `written ${format.amount(s.kinds.bytes[write])} in ${format.count(s.kinds.calls[write])}`;
        byId('latency-note').textContent = s.durations.length ?
            `half below ${part(0.5)}, 90 % ${part(0.9)}, 99 % ${part(0.99)}, longest ${format.time(s.durations[s.durations.length - 1])}` : '';
    }

    function start() {
        add('bandwidth', bandwidth);
        add('sizes', sizes);
        add('latency', latency);
        model.on('survey', () => { notes(); drawAll(); });
        model.on('theme', drawAll);
    }

    return { start, add, axis, timeAxis, timeScale, times, overTime, atTime, drawAll };
})();
