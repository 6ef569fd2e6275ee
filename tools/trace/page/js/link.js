// The span of time and the filter in the page's address, so that a link or a bookmark shows the same.
const link = (() => {
    function write() {
        const { d, from, to, text, side, failed, file, hidden } = model.state;
        const words = new URLSearchParams();

        if (from > d.first || to < d.last)
            words.set('time', `${Math.round(from)}-${Math.round(to)}`);
        if (text)
            words.set('search', text);
        if (side)
            words.set('side', side);
        if (failed)
            words.set('failed', '1');
        if (file)
            words.set('file', d.files[file]);
        if (hidden.size)
            words.set('without', [...hidden].map(number => d.kinds[number]).join(','));
        history.replaceState(null, '', '#' + words);
    }

    // An address of another run, or a part of this page, changes nothing.
    function read() {
        const { d } = model.state;
        const words = new URLSearchParams(location.hash.slice(1));
        const time = (words.get('time') || '').match(/^(-?\d+)-(\d+)$/);
        const without = (words.get('without') || '').split(',').filter(kind => kind in d.kindNumber);
        const sides = d.sides.includes(words.get('side')) ? words.get('side') : '';

        if (time)
            model.setTime(Number(time[1]), Number(time[2]));
        model.setFilter({
            text: words.get('search') || '', side: sides, failed: words.has('failed'),
            file: words.has('file') ? Math.max(0, d.files.indexOf(words.get('file'))) : 0,
            hidden: new Set(without.map(kind => d.kindNumber[kind]))
        });
    }

    function start() {
        if (location.hash.includes('='))
            read();
        model.on('survey', write);
        // a link of the page's own head has no words
        window.addEventListener('hashchange', () => { if (location.hash.includes('=')) read(); });
    }

    return { start };
})();
