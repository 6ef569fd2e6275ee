// Where in a file data was read and written, over time.
const heat = (() => {
    const CELL = 3; // pixels
    const LEFT = 70;
    const BOTTOM = 22;
    const HEIGHT = 230;
    const MAX_FILES = 200; // in the list
    const node = byId('heat');
    const chooser = byId('heat-file');
    let file = 0;
    let from = 0; // the range of offsets that is shown
    let to = 1;
    let began = 0; // the time of its calls
    let ended = 0;
    let grid = null;
    let selection = null;

    const right = () => node.clientWidth - 8;
    const bottom = () => HEIGHT - BOTTOM;

    const hasPlace = (d, i) => d.offset[i] >= 0 && d.bytes[i] > 0 && (d.kind[i] === d.kindNumber.read || d.kind[i] === d.kindNumber.write);

    // The part of the file that calls touch, and when.
    function range() {
        const { d } = model.state;
        from = began = Infinity;
        to = ended = 0;
        for (let i = 0; i < d.total; i++)
            if (d.file[i] === file && hasPlace(d, i)) {
                from = Math.min(from, d.offset[i]);
                to = Math.max(to, endOf(d, i));
                began = Math.min(began, d.start[i]);
                ended = Math.max(ended, d.end[i]);
            }
        if (from >= to) {
            from = 0;
            to = 1;
        }
        if (from < (to - from) * 0.2)
            from = 0;
    }

    const endOf = (d, i) => d.offset[i] + (i < d.events ? d.bytes[i] : Math.max(1, d.sumOffsetSpan[i - d.events]));

    // Bytes read and written in each cell.
    function count() {
        const { d, mask } = model.state;
        const columns = Math.max(1, Math.floor((right() - LEFT) / CELL));
        const lines = Math.max(1, Math.floor(bottom() / CELL));
        const g = { columns, lines, read: new Float64Array(columns * lines), written: new Float64Array(columns * lines), calls: new Float64Array(columns * lines), most: 0, any: false };
        const perNs = columns / (model.state.to - model.state.from);
        const perByte = lines / (to - from);

        for (let i = 0; i < d.total; i++) {
            if (d.file[i] !== file || !mask[i] || !hasPlace(d, i))
                continue;
            const x0 = (d.start[i] - model.state.from) * perNs;
            const x1 = (d.end[i] - model.state.from) * perNs;
            const y0 = (d.offset[i] - from) * perByte;
            const y1 = (endOf(d, i) - from) * perByte;
            if (x1 < 0 || x0 >= columns || y1 < 0 || y0 >= lines)
                continue;
            add(g, d.kind[i] === d.kindNumber.read ? g.read : g.written, x0, x1, y0, y1, d.bytes[i], d.callsOf(i));
        }
        for (let k = 0; k < g.read.length; k++)
            g.most = Math.max(g.most, g.read[k] + g.written[k]);
        g.any = g.most > 0;
        grid = g;
    }

    // Spreads a call over its cells.
    function add(g, target, x0, x1, y0, y1, bytes, calls) {
        const left = Math.max(0, Math.floor(x0));
        const last = Math.min(g.columns - 1, Math.max(left, Math.ceil(x1) - 1));
        const low = Math.max(0, Math.floor(y0));
        const top = Math.min(g.lines - 1, Math.max(low, Math.ceil(y1) - 1));
        const each = bytes / (Math.max(1, Math.ceil(x1) - Math.floor(x0)) * Math.max(1, Math.ceil(y1) - Math.floor(y0)));
        for (let y = low; y <= top; y++)
            for (let x = left; x <= last; x++) {
                target[y * g.columns + x] += each;
                g.calls[y * g.columns + x] += calls;
            }
    }

    const strength = value => 0.15 + 0.85 * Math.log1p(value) / Math.log1p(grid.most);

    function drawCells(context, c) {
        const { columns, lines } = grid;
        for (const [values, colour, other] of [[grid.read, c.read, grid.written], [grid.written, c.write, grid.read]]) {
            context.fillStyle = colour;
            for (let k = 0; k < columns * lines; k++) {
                if (!values[k])
                    continue;
                const x = LEFT + (k % columns) * CELL;
                const y = bottom() - (Math.floor(k / columns) + 1) * CELL;
                const both = other[k] > 0;
                context.globalAlpha = strength(values[k]);
                // a cell that was read and written has both colours, side by side
                context.fillRect(both && values === grid.written ? x + CELL / 2 : x, y, both ? CELL / 2 : CELL, CELL);
            }
        }
        context.globalAlpha = 1;
    }

    function drawAxes(context, c, width) {
        const step = binaryStep((to - from) / 5);
        context.strokeStyle = c.line;
        context.lineWidth = 1;
        context.textAlign = 'right';
        for (let offset = Math.ceil(from / step) * step; offset <= to; offset += step) {
            const y = Math.round(bottom() - (offset - from) / (to - from) * bottom()) + 0.5;
            context.strokeStyle = c.line;
            context.beginPath();
            context.moveTo(LEFT, y);
            context.lineTo(width - 8, y);
            context.stroke();
            context.fillStyle = c.faint;
            context.fillText(format.bytes(offset), LEFT - 6, Math.max(7, y));
        }
        context.save();
        context.beginPath();
        context.rect(LEFT, 0, width - LEFT, HEIGHT);
        context.clip();
        canvas.timeAxis(context, LEFT, width - 8, bottom() + 2, bottom() + 8);
        context.restore();
    }

    // Offsets are read in powers of two.
    function binaryStep(least) {
        return Math.pow(2, Math.max(0, Math.ceil(Math.log2(Math.max(1, least)))));
    }

    function draw() {
        const { context, width } = canvas.prepare(node, HEIGHT);
        const c = canvas.colours();
        if (!grid)
            count();

        drawAxes(context, c, width);
        if (grid.any) {
            drawCells(context, c);
        } else {
            context.fillStyle = c.faint;
            context.textAlign = 'center';
            context.fillText(file ? 'No data of this file was read or written by these calls.' : 'No call of this run has an offset.', (LEFT + width) / 2, HEIGHT / 2 - 20);
        }
        if (selection) {
            context.strokeStyle = c.accent;
            context.lineWidth = 2;
            context.strokeRect(selection.x0, selection.y0, selection.x1 - selection.x0, selection.y1 - selection.y0);
        }
        legend();
    }

    function legend() {
        if (!grid.any) {
            byId('heat-legend').replaceChildren();
            return;
        }

        const swatch = name => make('i', { className: 'swatch scale-' + name });
        byId('heat-legend').replaceChildren(swatch('read'), ' read ', swatch('write'), ' written; darker is more: up to ',
            `${format.bytes(grid.most)} in a cell of ${format.time((model.state.to - model.state.from) / grid.columns)} and ${format.bytes((to - from) / grid.lines)}. Drag zooms, a double click shows all.`);
    }

    function again() {
        grid = null;
        draw();
    }

    function show(number) {
        file = number;
        range();
        if (![...chooser.options].some(option => Number(option.value) === number))
            chooser.append(make('option', { value: String(number), textContent: format.tail(model.state.d.files[number], 60) }));
        chooser.value = String(number);
        again();
    }

    // The files that moved most bytes at known offsets; devices last.
    function fillChooser() {
        const { d } = model.state;
        const bytes = new Float64Array(d.files.length);
        for (let i = 0; i < d.total; i++)
            if (d.file[i] && hasPlace(d, i))
                bytes[d.file[i]] += d.bytes[i];
        const isDevice = number => Number(/^\/(dev|proc|sys)\//.test(d.files[number]));
        const best = [...bytes.keys()].filter(number => bytes[number] > 0).sort((a, b) => isDevice(a) - isDevice(b) || bytes[b] - bytes[a]);
        chooser.replaceChildren(...best.slice(0, MAX_FILES).map(number =>
            make('option', { value: String(number), textContent: format.tail(d.files[number], 60), title: format.text(d.files[number]) })));
        file = best.length ? best[0] : 0;
        range();
    }

    function tip(event) {
        const x = Math.floor((event.offsetX - LEFT) / CELL);
        const y = Math.floor((bottom() - event.offsetY) / CELL);
        if (!grid || x < 0 || y < 0 || x >= grid.columns || y >= grid.lines)
            return canvas.hideTip();
        const k = y * grid.columns + x;
        const at = model.state.from + x / grid.columns * (model.state.to - model.state.from);
        const offset = from + y / grid.lines * (to - from);
        canvas.showTip(event, [`at ${format.time(at)}, offset ${format.bytes(offset)}`, `read ${format.bytes(grid.read[k])}`,
            `written ${format.bytes(grid.written[k])}`, `${format.count(grid.calls[k])} calls`]);
    }

    // A call in the cell below the pointer, the longest of those that match the filter.
    function callAt(event) {
        const { d, mask } = model.state;
        const perNs = (model.state.to - model.state.from) / grid.columns;
        const perByte = (to - from) / grid.lines;
        const at = model.state.from + Math.floor((event.offsetX - LEFT) / CELL) * perNs;
        const offset = from + Math.floor((bottom() - event.offsetY) / CELL) * perByte;
        let best = -1;
        for (let i = 0; i < d.total; i++)
            if (d.file[i] === file && mask[i] && hasPlace(d, i) && d.start[i] < at + perNs && d.end[i] >= at && d.offset[i] < offset + perByte &&
                endOf(d, i) > offset && (best < 0 || d.ns[i] > d.ns[best]))
                best = i;
        return best;
    }

    function beginDrag(event) {
        const x = e => Math.max(LEFT, Math.min(right(), e.offsetX));
        const y = e => Math.max(0, Math.min(bottom(), e.offsetY));
        const x0 = x(event);
        const y0 = y(event);
        return {
            move(e) {
                selection = { x0: Math.min(x0, x(e)), x1: Math.max(x0, x(e)), y0: Math.min(y0, y(e)), y1: Math.max(y0, y(e)) };
                draw();
            },
            end() {
                const s = selection;
                selection = null;
                if (!s || s.x1 - s.x0 < 4) {
                    model.select(callAt(event), false);
                    return draw();
                }
                if (s.y1 - s.y0 > 6) { // a flat drag is one of time only
                    const perByte = (to - from) / bottom();
                    [from, to] = [from + (bottom() - s.y1) * perByte, from + (bottom() - s.y0) * perByte];
                }
                const perNs = (model.state.to - model.state.from) / (right() - LEFT);
                model.setTime(model.state.from + (s.x0 - LEFT) * perNs, model.state.from + (s.x1 - LEFT) * perNs, 0);
            }
        };
    }

    function start() {
        fillChooser();
        canvas.drag(node, beginDrag);
        node.addEventListener('pointermove', event => event.buttons || tip(event));
        node.addEventListener('pointerleave', canvas.hideTip);
        node.addEventListener('dblclick', () => { range(); model.whole(); });
        byId('heat-tools').hidden = !file;
        byId('heat-zoom').addEventListener('click', () => model.setTime(began - (ended - began) * 0.03, ended + (ended - began) * 0.03, 0));
        chooser.addEventListener('change', () => show(Number(chooser.value)));
        model.on('survey', again);
        model.on('theme', () => draw());
        model.on('filter', () => { if (model.state.file && model.state.file !== file) show(model.state.file); });
    }

    return { start, draw, again };
})();
