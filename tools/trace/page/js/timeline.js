// Calls by thread, process or rank over time.
//
// A call that is wider than a pixel is a box.  Of narrower ones, a pixel shows the kind that took most of its time, as high as the
// share of the pixel's time that they took.  Calls that the filter hides are grey.
const timeline = (() => {
    const LEFT = 170;
    const AXIS = 20;
    const MIN_HEIGHT = 14;
    const MAX_HEIGHT = 30;
    const node = byId('timeline');
    const scroller = byId('timeline-scroll');
    let list = [];
    let high = MAX_HEIGHT;
    let selection = null; // while a span is dragged: its two ends
    let due = false;

    const right = () => node.clientWidth - 8;
    const scale = () => (right() - LEFT) / (model.state.to - model.state.from);
    const timeOf = event => model.state.from + (event.offsetX - LEFT) / scale();

    function kindColour(c, d, i, matches) {
        return matches ? c.kinds[d.kind[i]] : c.dim;
    }

    // Calls of MPI-IO and messages contain file calls, which are drawn over them.
    const isOuter = (d, i) => d.bits[i] >> 2 > 1;

    // The box of a call, with its name if there is room.
    function box(context, c, i, x0, x1, y, matches) {
        const { d } = model.state;
        const isSum = i >= d.events;
        const share = isSum ? Math.min(1, d.ns[i] / Math.max(1, d.end[i] - d.start[i])) : 1;
        const tall = Math.max(3, (high - 4) * share);
        const top = y + high - 2 - tall;

        context.fillStyle = kindColour(c, d, i, matches);
        context.globalAlpha = isSum || isOuter(d, i) ? 0.5 : 1;
        context.fillRect(x0, top, Math.max(1, x1 - x0 - (x1 - x0 > 4 ? 1 : 0)), tall);
        context.globalAlpha = 1;
        if (d.failedOf(i) && matches) {
            context.fillStyle = c.failed;
            context.fillRect(x0, y, Math.max(2, Math.min(x1 - x0, 6)), 3);
        }
        if (x1 - x0 > 44 && high >= 14 && !isSum) {
            const name = d.names[d.name[i]][0];
            const size = d.bytes[i] ? ' ' + format.bytes(d.bytes[i]) : '';
            context.save();
            context.beginPath();
            context.rect(x0, y, x1 - x0 - 3, high);
            context.clip();
            context.fillStyle = matches ? '#000' : c.faint;
            context.fillText(name + size, Math.max(x0, LEFT) + 4, y + high / 2);
            context.restore();
        }
    }

    function drawRow(context, c, row, y) {
        const { d, mask, from, to } = model.state;
        const perNs = scale();
        const none = d.kinds.length; // calls that the filter hides
        const share = new Float64Array(none + 1);
        const end = right();
        let pixel = -1;
        let failed = false;
        let used = false;

        // Draws what has been gathered for one pixel.
        const flush = () => {
            if (!used)
                return;
            let best = none;
            let sum = share[none];
            for (let kind = 0; kind < none; kind++) {
                sum += share[kind];
                if (share[kind] > 0 && (best === none || share[kind] > share[best]))
                    best = kind;
            }
            const tall = Math.max(3, Math.min(1, sum * perNs) * (high - 4));
            context.fillStyle = best === none ? c.dim : c.kinds[best];
            context.fillRect(pixel, y + high - 2 - tall, 1, tall);
            if (failed) {
                context.fillStyle = c.failed;
                context.fillRect(pixel, y, 1.5, 3);
            }
            share.fill(0);
            failed = used = false;
        };

        context.textAlign = 'left';
        for (let at = rows.firstReaching(row, from); at < row.calls.length; at++) {
            const i = row.calls[at];
            if (d.start[i] >= to)
                break;
            if (d.end[i] < from)
                continue;

            const x0 = LEFT + (d.start[i] - from) * perNs;
            const x1 = LEFT + (d.end[i] - from) * perNs;
            if (x1 - x0 >= 1.5) {
                flush();
                box(context, c, i, Math.max(LEFT, x0), Math.min(end, x1), y, mask[i]);
                continue;
            }

            const at_pixel = Math.max(LEFT, Math.floor(x0));
            if (at_pixel !== pixel) {
                flush();
                pixel = at_pixel;
            }
            used = true;
            share[mask[i] ? d.kind[i] : none] += (d.ns[i] + 1) * (isOuter(d, i) ? 0.3 : 1);
            failed = failed || (mask[i] === 1 && d.failedOf(i) > 0);
        }
        flush();
    }

    function drawLabel(context, c, row, y) {
        let name = row.name;
        context.fillStyle = c.text;
        context.textAlign = 'left';
        while (name.length > 4 && context.measureText(name).width > LEFT - 16)
            name = name.slice(0, -2).trimEnd() + '…';
        context.fillText(name, 8, y + high / 2);
    }

    function drawSelected(context, c) {
        const { d, call, from } = model.state;
        if (call < 0)
            return;
        const number = list.findIndex(row => row.threads.has(d.thread[call]));
        const x0 = LEFT + (d.start[call] - from) * scale();
        const x1 = LEFT + (d.end[call] - from) * scale();
        if (x1 < LEFT || x0 > right())
            return;
        const y = AXIS + number * high;
        context.strokeStyle = c.text;
        context.lineWidth = 2;
        context.strokeRect(Math.max(LEFT, x0) - 1, y + 1, Math.max(4, Math.min(right(), x1) - Math.max(LEFT, x0) + 2), high - 2);
        context.beginPath();
        context.moveTo((Math.max(LEFT, x0) + Math.min(right(), x1)) / 2, AXIS - 7);
        context.lineTo((Math.max(LEFT, x0) + Math.min(right(), x1)) / 2, y);
        context.stroke();
    }

    function draw() {
        due = false;
        high = Math.max(MIN_HEIGHT, Math.min(MAX_HEIGHT, Math.floor(220 / Math.max(1, list.length))));
        const { context, width, height } = canvas.prepare(node, AXIS + Math.max(1, list.length) * high + 4);
        const c = canvas.colours();

        canvas.timeAxis(context, LEFT, width - 8, 2, height);
        list.forEach((row, number) => {
            const y = AXIS + number * high;
            if (number % 2 === 0) {
                context.globalAlpha = 0.35;
                context.fillStyle = c.line;
                context.fillRect(0, y, width, high);
                context.globalAlpha = 1;
            }
            drawLabel(context, c, row, y);
            context.save();
            context.beginPath();
            context.rect(LEFT, y, width - 8 - LEFT, high);
            context.clip();
            drawRow(context, c, row, y);
            context.restore();
        });

        drawSelected(context, c);
        if (selection) {
            context.fillStyle = c.accent;
            context.globalAlpha = 0.2;
            context.fillRect(selection[0], 0, selection[1] - selection[0], height);
            context.globalAlpha = 1;
        }
    }

    // Many movements between two frames are one drawing.
    function drawSoon() {
        if (!due) {
            due = true;
            requestAnimationFrame(draw);
        }
    }

    // The call below the pointer, or the nearest one within three pixels; those that match the filter first.
    function callAt(event) {
        const row = list[Math.floor((event.offsetY - AXIS) / high)];
        if (!row || event.offsetX < LEFT)
            return -1;
        const { d, mask } = model.state;
        const ns = timeOf(event);
        const near = 3 / scale();
        let best = -1;
        let bestScore = Infinity;
        for (let at = rows.firstReaching(row, ns - near); at < row.calls.length && d.start[row.calls[at]] <= ns + near; at++) {
            const i = row.calls[at];
            if (d.end[i] < ns - near)
                continue;
            const away = Math.max(0, d.start[i] - ns, ns - d.end[i]);
            const score = away + (mask[i] ? 0 : near * 2) + (d.end[i] - d.start[i]) * 1e-6;
            if (score < bestScore) {
                bestScore = score;
                best = i;
            }
        }
        return best;
    }

    function beginDrag(event) {
        const { from, to } = model.state;
        const x0 = event.offsetX;
        const perNs = scale();
        const moves = event.shiftKey;
        let moved = false;

        if (x0 < LEFT)
            return null;
        return {
            move(e) {
                moved = moved || Math.abs(e.clientX - event.clientX) > 3;
                if (!moved)
                    return;
                if (moves) {
                    const by = (event.clientX - e.clientX) / perNs;
                    model.setTime(from + by, to + by);
                    return;
                }
                const x1 = Math.max(LEFT, Math.min(right(), e.offsetX));
                selection = [Math.min(x0, x1), Math.max(x0, x1)];
                drawSoon();
            },
            end() {
                if (!moved)
                    model.select(callAt(event), false);
                else if (selection)
                    model.setTime(from + (selection[0] - LEFT) / perNs, from + (selection[1] - LEFT) / perNs, 0);
                selection = null;
                drawSoon();
            }
        };
    }

    function arrange() {
        const { d } = model.state;
        list = rows.make(d, byId('rows').value);
        draw();
    }

    function start() {
        const { d } = model.state;
        const ranks = d.processes.some(process => process.rank >= 0);
        if (d.threads.length > 64)
            byId('rows').value = ranks ? 'rank' : 'process';
        list = rows.make(d, byId('rows').value);

        canvas.drag(node, beginDrag);
        node.addEventListener('wheel', event => {
            if (event.ctrlKey || event.altKey) {
                event.preventDefault();
                model.zoom(Math.exp(Math.sign(event.deltaY) * 0.25), Math.max(model.state.from, timeOf(event)));
            } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
                event.preventDefault();
                model.move(Math.sign(event.deltaX || event.deltaY) * 0.1);
            }
        }, { passive: false });
        node.addEventListener('pointermove', event => {
            const call = event.buttons ? -1 : callAt(event);
            const row = list[Math.floor((event.offsetY - AXIS) / high)];
            if (call >= 0)
                canvas.showTip(event, lists.lines(call));
            else if (row && event.offsetX < LEFT)
                canvas.showTip(event, [row.name.trim(), format.text(row.process.exe), `host ${format.text(row.process.host)}`, `${format.count(row.calls.length)} calls`]);
            else
                canvas.hideTip();
        });
        node.addEventListener('pointerleave', canvas.hideTip);
        node.addEventListener('dblclick', model.whole);
        byId('rows').addEventListener('change', arrange);
        for (const what of ['time', 'filter', 'call', 'theme'])
            model.on(what, drawSoon);
    }

    return { start, draw };
})();
