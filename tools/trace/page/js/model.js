// What the reader looks at: a span of time, a filter, a call.  Parts of the page subscribe to its changes.
const model = (() => {
    const state = {
        d: null,
        from: 0,
        to: 1,
        text: '',
        hidden: new Set(), // kinds
        side: '',
        failed: false,
        file: 0,
        call: -1,
        mask: null, // by call: 1 if it matches the filter
        survey: null
    };
    const listeners = { time: [], filter: [], call: [], survey: [], theme: [] };
    let due = 0;

    const on = (what, listener) => listeners[what].push(listener);
    const tell = what => listeners[what].forEach(listener => listener());

    // Counting takes tens of milliseconds for a million calls; movements of the timeline do not wait for it.
    function surveyLater(delay) {
        clearTimeout(due);
        due = setTimeout(surveyNow, delay);
    }

    function surveyNow() {
        clearTimeout(due);
        state.survey = survey.make(state);
        tell('survey');
    }

    function start(d) {
        state.d = d;
        state.from = d.first;
        state.to = d.last;
        state.mask = filter.apply(state).mask;
    }

    function setTime(from, to, delay = 60) {
        const { first, last } = state.d;
        const width = Math.min(Math.max(to - from, 20), last - first);
        state.from = Math.max(first, Math.min(from, last - width));
        state.to = state.from + width;
        tell('time');
        surveyLater(delay);
    }

    const whole = () => setTime(state.d.first, state.d.last);

    // Scales the span around a moment.
    function zoom(factor, around = (state.from + state.to) / 2) {
        setTime(around - (around - state.from) * factor, around + (state.to - around) * factor);
    }

    function move(part) {
        const by = (state.to - state.from) * part;
        setTime(state.from + by, state.to + by);
    }

    // change: members of the state that the filter has.
    function setFilter(change) {
        Object.assign(state, change);
        const result = filter.apply(state);
        state.mask = result.mask;
        byId('wrong').textContent = result.wrong;
        tell('filter');
        surveyLater(0);
    }

    const clear = () => setFilter({ text: '', hidden: new Set(), side: '', failed: false, file: 0 });

    // The first call that begins at or after a moment; calls are ordered by their start.
    function firstAt(ns) {
        let low = 0;
        let high = state.d.events;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (state.d.start[middle] < ns)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    // show: move the span of time so that the call is in it.
    function select(call, show) {
        state.call = call;
        if (show && call >= 0) {
            const at = state.d.start[call];
            const width = state.to - state.from;
            if (at < state.from || at >= state.to)
                setTime(at - width / 2, at + width / 2);
        }
        tell('call');
    }

    // The next call (or the one before) that matches the filter; after the last one comes the first.
    function step(direction) {
        const { d, mask, call, from } = state;
        const n = d.events;
        const first = call >= 0 && call < n ? call + direction : firstAt(from);
        for (let k = 0; k < n; k++) {
            const i = (first + k * direction + 2 * n) % n;
            if (mask[i])
                return select(i, true);
        }
    }

    return { state, on, tell, start, setTime, whole, zoom, move, setFilter, clear, select, step, firstAt, surveyNow };
})();
