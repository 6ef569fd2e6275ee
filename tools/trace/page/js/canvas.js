// Canvases with the pixels of the screen, the page's colours, and an axis of time.
const canvas = (() => {
    const FONT = '12px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif';
    let cache = null;

    // Colours of the page's style, by name.
    function colours() {
        if (cache)
            return cache;
        const style = getComputedStyle(document.documentElement);
        const get = name => style.getPropertyValue('--' + name).trim();
        cache = {
            text: get('text'), faint: get('faint'), line: get('line'), card: get('card'), dim: get('dim'), accent: get('accent'),
            failed: get('failed'), read: get('read'), write: get('write'), server: get('server'),
            kinds: model.state.d.kinds.map(kind => get('kind-' + kind))
        };
        return cache;
    }

    const forget = () => { cache = null; };

    // Sizes a canvas to its place in the page; a drawing context whose unit is a pixel of the page.
    function prepare(node, height) {
        const ratio = window.devicePixelRatio || 1;
        const width = Math.max(50, node.clientWidth);
        if (height)
            node.style.height = height + 'px';
        const high = height || node.clientHeight;
        if (node.width !== Math.round(width * ratio) || node.height !== Math.round(high * ratio)) {
            node.width = Math.round(width * ratio);
            node.height = Math.round(high * ratio);
        }
        const context = node.getContext('2d');
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, width, high);
        context.font = FONT;
        context.textBaseline = 'middle';
        return { context, width, height: high };
    }

    // Ticks of time from x = left on, with lines down to `bottom`.
    function timeAxis(context, left, right, y, bottom) {
        const { from, to } = model.state;
        const step = format.step(to - from, (right - left) / 110);
        const scale = (right - left) / (to - from);
        const c = colours();

        context.fillStyle = c.faint;
        context.strokeStyle = c.line;
        context.lineWidth = 1;
        context.textAlign = 'left';
        for (let ns = Math.ceil(from / step) * step; ns < to; ns += step) {
            const x = Math.round(left + (ns - from) * scale) + 0.5;
            context.beginPath();
            context.moveTo(x, y);
            context.lineTo(x, bottom);
            context.stroke();
            const label = format.tick(ns, step, to);
            if (x + 4 + context.measureText(label).width < right)
                context.fillText(label, x + 4, y + 8);
        }
    }

    // A drag on a canvas: begin(event) says what it is; move and end get the event.
    function drag(node, begin) {
        node.addEventListener('pointerdown', event => {
            if (event.button !== 0)
                return;
            const handler = begin(event);
            if (!handler)
                return;
            node.setPointerCapture(event.pointerId);
            const move = e => handler.move(e);
            const end = e => {
                node.removeEventListener('pointermove', move);
                node.removeEventListener('pointerup', end);
                node.removeEventListener('pointercancel', end);
                handler.end(e);
            };
            node.addEventListener('pointermove', move);
            node.addEventListener('pointerup', end);
            node.addEventListener('pointercancel', end);
        });
    }

    const tip = byId('tip');

    // A few lines of text beside the pointer.
    function showTip(event, lines) {
        tip.replaceChildren(...lines.map(line => make('div', { textContent: line })));
        tip.hidden = false;
        const x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
        const below = event.clientY + 18 + tip.offsetHeight < window.innerHeight;
        tip.style.left = Math.max(4, x) + 'px';
        tip.style.top = (below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 12) + 'px';
    }

    const hideTip = () => { tip.hidden = true; };

    return { colours, forget, prepare, timeAxis, drag, showTip, hideTip };
})();
