// Starts the page: reads the data, connects the filter, the keys and the theme.
const page = (() => {
    const root = document.documentElement;
    const systemDark = window.matchMedia('(prefers-color-scheme: dark)');
    let beforePrint = null; // the theme that the reader had

    const isDark = () => root.dataset.theme === 'dark' || (root.dataset.theme === 'auto' && systemDark.matches);

    function setColours() {
        root.dataset.colours = isDark() ? 'dark' : 'light';
    }

    function redraw() {
        setColours();
        canvas.forget();
        model.tell('theme');
    }

    function setTheme(theme) {
        root.dataset.theme = theme;
        byId('theme').value = theme;
        redraw();
    }

    // ---- what the page says of itself ----

    function plural(n, one, many) {
        return `${format.count(n)} ${n === 1 ? one : many}`;
    }

    function describe() {
        const { d } = model.state;
        // programs with a rank are the ones that the run is about
        const first = [...d.processes].sort((a, b) => Number(b.rank >= 0) - Number(a.rank >= 0));
        const exe = [...new Set(first.map(process => process.exe.split('/').pop()))].filter(name => name);
        const hosts = new Set(d.processes.map(process => process.host)).size;
        const ranks = new Set(d.processes.filter(process => process.rank >= 0).map(process => process.rank)).size;
        const name = exe.slice(0, 3).join(', ') + (exe.length > 3 ? ` and ${exe.length - 3} more` : '');
        const when = new Date(d.zero / 1e6);
        const parts = [plural(d.processes.length, 'process', 'processes'), plural(d.threads.length, 'thread', 'threads'), plural(hosts, 'host', 'hosts')];

        if (ranks)
            parts.unshift(plural(ranks, 'rank', 'ranks'));
        document.title = `File calls of ${format.text(name)}`;
        document.querySelector('h1').textContent = `File calls of ${format.text(name)}`;
        byId('run').textContent = `${parts.join(', ')}, ${format.time(d.last - d.first)} from ${when.toISOString().replace('T', ' ').slice(0, 16)} UTC`;
        byId('made').textContent = `Made by iofwd-trace of ${d.tool} from ${format.text(d.folder)}. Times begin with the run.`;
    }

    // Nothing is left out in silence.
    function notices() {
        const { d } = model.state;
        const list = [];
        if (d.left)
            list.push(`${format.count(d.left.calls)} of ${format.count(d.left.calls + d.events)} calls did not fit into this page one by one: they are in it as sums of each file, thread, kind, ` +
                `size and duration in ${d.left.parts} parts of the run, beside the calls that failed${d.left.failed ? ` (but for ${format.count(d.left.failed)} of these)` : ''} and those that took ` +
                `${format.time(d.left.slowestNs)} or longer${d.left.filesMerged ? `, and ${format.count(d.left.filesMerged)} files are one in the sums` : ''}; iofwd-trace sql has all of them.`);
        if (d.summedCalls)
            list.push(`${format.count(d.summedCalls)} calls were beyond IOFWD_TRACE_BUDGET and are here as sums by file, with their mean size and duration.`);
        if (d.droppedCalls || d.droppedTexts)
            list.push(`${format.count(d.droppedCalls)} calls and ${format.count(d.droppedTexts)} paths are lost: the recorder had no room for them.`);
        if (!d.total)
            list.push('This run made no file call that was recorded.');
        byId('notice').hidden = !list.length;
        byId('notice').textContent = list.join(' ');
    }

    // ---- the filter ----

    const ORDER = ['read', 'write', 'open', 'close', 'meta', 'folder', 'seek', 'sync', 'map', 'process', 'wait', 'stdio', 'mpi-io', 'am', 'rma', 'coll', 'other'];

    // A button for each kind of call that the run has; together they are the legend of the timeline.
    function kindButtons() {
        const { d } = model.state;
        const shown = ORDER.filter(kind => d.kind.includes(d.kindNumber[kind]));
        byId('kinds').append(...shown.map(kind => {
            const number = d.kindNumber[kind];
            const button = make('button', { type: 'button', className: 'kind', title: 'Shows or hides these calls; a double click shows no others' },
                make('i', { className: 'swatch kind-' + kind }), make('b', { textContent: kind }), make('span'));
            button.dataset.kind = kind;
            button.addEventListener('click', event => {
                const hidden = new Set(model.state.hidden);
                if (event.detail === 2) {
                    d.kinds.forEach((other, k) => hidden.add(k));
                    hidden.delete(number);
                } else if (!hidden.delete(number)) {
                    hidden.add(number);
                }
                model.setFilter({ hidden });
            });
            return button;
        }));
    }

    function showFilter() {
        const { d, hidden, file, side, failed, text } = model.state;
        [...byId('kinds').children].forEach(button => button.setAttribute('aria-pressed', String(!hidden.has(d.kindNumber[button.dataset.kind]))));
        byId('file-label').hidden = !file;
        byId('file-name').textContent = file ? format.tail(d.files[file], 50) : '';
        byId('file-name').title = file ? format.text(d.files[file]) : '';
        byId('side').value = side;
        byId('failed').checked = failed;
        if (byId('search').value !== text)
            byId('search').value = text;
    }

    function showCounts() {
        const { d, survey: s, from, to } = model.state;
        const { read, write } = d.kindNumber;
        let all = d.events;
        for (let k = 0; k < d.sums; k++)
            all += d.sumCalls[k];

        const count = byId('count');
        count.textContent = `${format.count(s.calls)} of ${format.count(all)} calls, ${format.count(s.failed)} failed, ${format.time(s.ns)} in calls, ` +
            `${format.amount(s.kinds.bytes[read])} read, ${format.amount(s.kinds.bytes[write])} written`;
        Object.assign(count.dataset, { calls: s.calls, failed: s.failed, ns: s.ns, read: s.kinds.bytes[read], written: s.kinds.bytes[write] });
        byId('window').textContent = `${format.time(from)} – ${format.time(to)} (${format.time(to - from)})`;
        Object.assign(byId('window').dataset, { from, to });
        byId('whole').disabled = from <= d.first && to >= d.last;
        [...byId('kinds').children].forEach(button => {
            const number = d.kindNumber[button.dataset.kind];
            button.lastChild.textContent = s.kinds.calls[number] ? `${format.short(s.kinds.calls[number])} · ${format.time(s.kinds.ns[number])}` : '';
            button.dataset.calls = s.kinds.calls[number];
            button.dataset.ns = s.kinds.ns[number];
            button.classList.toggle('none', !s.kinds.calls[number]);
        });
    }

    function connectFilter() {
        let due = 0;
        byId('search').addEventListener('input', () => {
            clearTimeout(due);
            due = setTimeout(() => model.setFilter({ text: byId('search').value }), 120);
        });
        byId('search').addEventListener('keydown', event => {
            if (event.key === 'Enter')
                model.step(event.shiftKey ? -1 : 1);
        });
        byId('side').addEventListener('change', () => model.setFilter({ side: byId('side').value }));
        byId('failed').addEventListener('change', () => model.setFilter({ failed: byId('failed').checked }));
        byId('file-clear').addEventListener('click', () => model.setFilter({ file: 0 }));
        byId('clear').addEventListener('click', model.clear);
        byId('whole').addEventListener('click', model.whole);
        byId('next').addEventListener('click', () => model.step(1));
        byId('previous').addEventListener('click', () => model.step(-1));
        byId('zoom-in').addEventListener('click', () => model.zoom(0.5));
        byId('zoom-out').addEventListener('click', () => model.zoom(2));
        model.on('filter', showFilter);
        model.on('survey', showCounts);
    }

    // ---- keys ----

    const KEYS = {
        '/': () => byId('search').focus(), 'n': () => model.step(1), 'p': () => model.step(-1), '+': () => model.zoom(0.5), '=': () => model.zoom(0.5),
        '-': () => model.zoom(2), '0': model.whole, 'ArrowLeft': () => model.move(-0.2), 'ArrowRight': () => model.move(0.2), 'Escape': model.clear,
        't': () => setTheme(isDark() ? 'light' : 'dark'), '?': () => byId('help').showModal()
    };

    function onKey(event) {
        const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== 'checkbox';
        if (event.ctrlKey || event.altKey || event.metaKey || byId('help').open)
            return;
        if (typing) {
            if (event.key === 'Escape')
                event.target.blur();
            return;
        }
        if (KEYS[event.key]) {
            event.preventDefault();
            KEYS[event.key]();
        }
    }

    // ---- print ----

    function print(on) {
        if (on === (beforePrint !== null))
            return;
        root.classList.toggle('print', on);
        lists.print(on);
        processes.print(on);
        if (on) {
            beforePrint = root.dataset.theme;
            setTheme('light');
        } else {
            setTheme(beforePrint);
            beforePrint = null;
        }
    }

    function connectPage() {
        byId('theme').addEventListener('change', () => setTheme(byId('theme').value));
        byId('help-button').addEventListener('click', () => byId('help').showModal());
        systemDark.addEventListener('change', redraw);
        document.addEventListener('keydown', onKey);
        window.addEventListener('beforeprint', () => print(true));
        window.addEventListener('afterprint', () => print(false));
        window.matchMedia('print').addEventListener('change', event => print(event.matches));

        let width = document.body.clientWidth;
        new ResizeObserver(() => {
            if (document.body.clientWidth !== width) {
                width = document.body.clientWidth;
                redraw();
            }
        }).observe(document.body);
    }

    async function start() {
        setColours();
        const d = await data.read(byId('data').textContent);
        byId('data').remove();
        model.start(d);
        describe();
        notices();
        kindButtons();
        connectFilter();
        overview.start();
        timeline.start();
        heat.start();
        lists.start();
        findings.start();
        charts.start();
        servers.start();
        processes.start();
        connectPage();
        link.start();
        showFilter();
        overview.draw();
        timeline.draw();
        model.surveyNow();
        requestAnimationFrame(() => requestAnimationFrame(() => { root.dataset.ready = String(Math.round(performance.now())); }));
    }

    function fail(error) {
        byId('notice').hidden = false;
        byId('notice').textContent = typeof DecompressionStream === 'undefined' ?
            'This browser is too old for the page: it needs Firefox 113, Chromium 80, Safari 16.4, or newer.' :
            `The page cannot be shown, because its data is damaged: ${error.message}; iofwd-trace report writes it again.`;
        root.dataset.ready = 'failed';
    }

    return { start, fail };
})();

page.start().catch(page.fail);
