// Numbers, times and texts for a reader.
const format = (() => {
    const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
    const DECIMAL = ['', 'k', 'M', 'G', 'T', 'P'];
    const TIMES = [['ns', 1], ['µs', 1e3], ['ms', 1e6], ['s', 1e9]];

    // Three digits that mean something.
    function digits(value) {
        const size = Math.abs(value);
        if (size >= 99.95 || Number.isInteger(value))
            return value.toFixed(0);
        return size >= 9.995 ? value.toFixed(1) : value.toFixed(2);
    }

    function scaled(value, base, units, space) {
        let step = 0;
        while (Math.abs(value) >= base * 0.9995 && step + 1 < units.length) {
            value /= base;
            step++;
        }
        return digits(value) + space + units[step];
    }

    const count = value => Math.round(value).toLocaleString('en-US');
    const bytes = value => scaled(value, 1024, SIZES, ' ');
    const amount = value => scaled(value, 1000, DECIMAL.map(unit => unit + 'B'), ' ');
    const short = value => scaled(value, 1000, DECIMAL, '');
    const rate = bytesPerSecond => scaled(bytesPerSecond, 1000, DECIMAL.map(unit => unit + 'B/s'), ' ');

    function unitOf(ns) {
        let unit = TIMES[0];
        for (const other of TIMES)
            if (Math.abs(ns) >= other[1])
                unit = other;
        return unit;
    }

    function time(ns) {
        if (!(ns >= 0 || ns < 0))
            return '';
        const [name, size] = unitOf(ns);
        return digits(ns / size) + ' ' + name;
    }

    // A tick of an axis whose ticks are `step` apart and end at `last`: the same unit for all of them.
    function tick(ns, step, last) {
        const [name, size] = unitOf(Math.max(Math.abs(last), step));
        const places = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
        return (ns / size).toFixed(Math.min(places, 9)) + ' ' + name;
    }

    // Steps of 1, 2 or 5 that divide a length into at most `most` parts.
    function step(length, most) {
        const least = length / Math.max(1, most);
        const power = Math.pow(10, Math.floor(Math.log10(least)));
        for (const factor of [1, 2, 5])
            if (power * factor >= least)
                return power * factor;
        return power * 10;
    }

    // Control characters and those that turn the direction of a text become visible.
    const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
    function text(value) {
        return value.replace(HIDDEN, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
    }

    // The end of a long path says more than its beginning.
    function tail(value, most) {
        const shown = text(value);
        return shown.length <= most ? shown : '…' + shown.slice(shown.length - most + 1);
    }

    return { count, bytes, amount, short, rate, time, tick, step, text, tail };
})();

// make('td', { title: 'a' }, 'text', node...): an element; texts become text nodes, never HTML.
function make(name, properties, ...children) {
    const node = document.createElement(name);
    Object.assign(node, properties);
    node.append(...children);
    return node;
}

const byId = id => document.getElementById(id);
