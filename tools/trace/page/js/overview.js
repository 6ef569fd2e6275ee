// The whole run in one strip, with the span that the other parts show; a drag selects another one.
const overview = (() => {
    const HEIGHT = 46;
    const LEFT = 170; // as the timeline's
    const node = byId('overview');
    let bins = null;

    // How many threads are in reads, in writes and in other calls, for each pixel.  Calls that only wait are left out.
    function count(width) {
        const { d, mask } = model.state;
        const scale = width / (d.last - d.first);
        const n = Math.max(1, Math.floor(width));
        bins = { read: new Float64Array(n), write: new Float64Array(n), other: new Float64Array(n), failed: new Uint8Array(n) };

        const targets = d.kinds.map(kind => bins[kind] || bins.other);
        for (let i = 0; i < d.total; i++) {
            if (!mask[i] || d.kind[i] === d.kindNumber.wait)
                continue;
            const target = targets[d.kind[i]];
            const low = (d.start[i] - d.first) * scale;
            const high = Math.min(n, (d.end[i] - d.first) * scale);
            const first = Math.min(n - 1, Math.floor(low));
            if (d.failedOf(i))
                bins.failed[first] = 1;
            if (high < first + 1) {
                target[first] += d.ns[i] * scale;
                continue;
            }
            const each = d.ns[i] * scale / (high - low);
            for (let bin = first; bin < high; bin++)
                target[bin] += each * (Math.min(high, bin + 1) - Math.max(low, bin));
        }
    }

    function draw() {
        const { context, width } = canvas.prepare(node, HEIGHT);
        const { d, from, to } = model.state;
        const c = canvas.colours();
        const wide = width - LEFT;
        if (!bins || bins.read.length !== Math.floor(wide))
            count(wide);

        let most = 0;
        for (let x = 0; x < bins.read.length; x++)
            most = Math.max(most, bins.read[x] + bins.write[x] + bins.other[x]);
        context.fillStyle = c.faint;
        context.textAlign = 'left';
        context.fillText('Threads in calls', 8, HEIGHT / 2 - 7);
        context.fillText(`at most ${format.short(Math.round(most * 10) / 10)}`, 8, HEIGHT / 2 + 9);

        for (let x = 0; x < bins.read.length; x++) {
            let y = HEIGHT - 3;
            for (const [part, colour] of [['read', c.kinds[d.kindNumber.read]], ['write', c.kinds[d.kindNumber.write]], ['other', c.faint]]) {
                const high = most ? bins[part][x] / most * (HEIGHT - 8) : 0;
                if (high <= 0)
                    continue;
                context.fillStyle = colour;
                context.fillRect(LEFT + x, y - Math.max(high, 0.6), 1, Math.max(high, 0.6));
                y -= high;
            }
            if (bins.failed[x]) {
                context.fillStyle = c.failed;
                context.fillRect(LEFT + x, HEIGHT - 2, 1, 2);
            }
        }

        const scale = wide / (d.last - d.first);
        const x0 = LEFT + (from - d.first) * scale;
        const x1 = Math.max(x0 + 2, LEFT + (to - d.first) * scale);
        context.fillStyle = c.card;
        context.globalAlpha = 0.65;
        context.fillRect(LEFT, 0, x0 - LEFT, HEIGHT);
        context.fillRect(x1, 0, width - x1, HEIGHT);
        context.globalAlpha = 1;
        context.strokeStyle = c.accent;
        context.lineWidth = 2;
        context.strokeRect(x0 + 1, 1, Math.max(1, x1 - x0 - 2), HEIGHT - 2);
    }

    function start() {
        const timeOf = event => {
            const { d } = model.state;
            return d.first + (event.offsetX - LEFT) / (node.clientWidth - LEFT) * (d.last - d.first);
        };

        canvas.drag(node, event => {
            const { from, to } = model.state;
            const begin = timeOf(event);
            const moves = event.shiftKey;
            let moved = false;
            return {
                move(e) {
                    moved = moved || Math.abs(e.clientX - event.clientX) > 3;
                    if (moved && moves)
                        model.setTime(from + timeOf(e) - begin, to + timeOf(e) - begin);
                    else if (moved)
                        model.setTime(Math.min(begin, timeOf(e)), Math.max(begin, timeOf(e)));
                },
                end() {
                    if (!moved) // a click moves the span there
                        model.setTime(begin - (to - from) / 2, begin + (to - from) / 2);
                }
            };
        });
        node.addEventListener('dblclick', model.whole);
        model.on('time', draw);
        model.on('filter', () => { bins = null; draw(); });
        model.on('theme', draw);
    }

    return { start, draw };
})();
