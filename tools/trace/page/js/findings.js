// Findings: each with its cost, its remedy, and a way to the calls that it is about.
const findings = (() => {
    const FIRST = 12;
    const ALIKE = 3; // more findings that differ in their file or process only are one
    const SETTING = /\b(?:IOFWD|AMPHORA)_[A-Z_]+(?:=\S+)?/g;

    // A remedy with the names of settings as code.
    function remedy(text) {
        const node = make('p', { className: 'remedy' });
        let at = 0;
        for (const match of text.matchAll(SETTING)) {
            node.append(text.slice(at, match.index), make('code', { textContent: match[0] }));
            at = match.index + match[0].length;
        }
        node.append(text.slice(at));
        return node;
    }

    // The filter that shows the calls of a finding.
    function filterOf(finding) {
        const { d } = model.state;
        const words = [finding.shows];
        const file = finding.subject.startsWith('/') ? d.files.indexOf(finding.subject) : 0;
        const process = finding.subject.match(/^process (\d+)$/);
        const rank = finding.subject.match(/^rank (\d+)$/);

        if (process)
            words.push(`pid:${process[1]}`);
        if (rank)
            words.push(`rank:${rank[1]}`);
        return { text: words.filter(word => word).join(' '), file: Math.max(0, file), hidden: new Set(), side: '', failed: false };
    }

    function item(finding, allNs) {
        const share = allNs ? 100 * finding.ns / allNs : 0;
        const bar = make('span', { className: 'bar' }, make('span', { className: 'part' }));
        const show = make('button', { type: 'button', textContent: 'Show its calls' });

        bar.firstChild.style.width = Math.min(100, share).toFixed(1) + '%';
        show.addEventListener('click', () => {
            model.setFilter(filterOf(finding));
            model.whole();
            byId('search').value = model.state.text;
            byId('timeline-card').scrollIntoView();
        });

        const node = make('li', {},
            make('div', { className: 'cost' }, make('strong', { textContent: format.time(finding.ns) }), bar, make('small', { textContent: `${share.toFixed(1)} % of the time in calls` })),
            make('div', { className: 'what' },
                make('h3', { textContent: finding.finding }),
                make('p', { className: 'subject', textContent: format.text(finding.subject) + ' · ' + format.count(finding.calls) + ' calls' + (finding.detail ? ' · ' + format.text(finding.detail) : '') }),
                remedy(finding.remedy)),
            show);
        node.dataset.ns = finding.ns;
        return node;
    }

    // Those of one kind as one, with their sums; the most expensive one is the example.
    function grouped(all) {
        const kinds = new Map();
        for (const finding of all)
            kinds.set(finding.finding, [...(kinds.get(finding.finding) ?? []), finding]);

        const sum = (list, name) => list.reduce((total, finding) => total + finding[name], 0);
        const one = list => ({
            ...list[0], ns: sum(list, 'ns'), calls: sum(list, 'calls'), detail: '',
            subject: `${format.count(list.length)} of them, such as ${list[0].subject}`
        });
        return [...kinds.values()].flatMap(list => list.length > ALIKE ? [one(list)] : list).sort((a, b) => b.ns - a.ns);
    }

    function draw(all) {
        const { d } = model.state;
        const node = byId('findings');
        let ns = 0;
        for (let i = 0; i < d.events; i++)
            ns += d.ns[i];

        const shown = all ? d.findings : grouped(d.findings).slice(0, FIRST);
        node.replaceChildren(...shown.map(finding => item(finding, ns)));
        if (!d.findings.length)
            node.append(make('li', { className: 'none', textContent: 'Nothing: no rule applies to this run.' }));
        if (shown.length < d.findings.length) {
            const more = make('button', { type: 'button', id: 'findings-all', textContent: `Show all ${d.findings.length}` });
            more.addEventListener('click', () => draw(true));
            node.append(make('li', { className: 'none' }, more));
        }
    }

    return { start: () => draw(false) };
})();
