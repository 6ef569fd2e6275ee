// A table that can be sorted and may have a million rows: only those in sight are in the document.
const table = (() => {
    const HIGH = 24; // pixels of a row
    const MAX_SORTED = 200000;
    const PRINTED = 60;

    // columns: { title, value: row => number or text, show: row => text, numeric, hint }; rows are numbers.
    // options: { sort: column, descending, pick: row => what a click does, isPicked: row => boolean, high }
    function create(node, columns, options) {
        const head = make('tr');
        const body = make('tbody');
        const scroller = make('div', { className: 'scroller', tabIndex: 0 });
        let given = []; // in the order of column options.natural
        let rows = [];
        let sort = options.sort;
        let descending = options.descending;
        let printing = false;
        let cursor = -1; // the line that the arrow keys have come to

        columns.forEach((column, number) => {
            const button = make('button', { type: 'button', className: 'column', textContent: column.title, title: column.hint || `Sort by ${column.title}` });
            const cell = make('th', { className: column.numeric ? 'number' : '' }, button);
            cell.dataset.column = column.title;
            button.addEventListener('click', () => {
                descending = sort === number ? !descending : Boolean(column.numeric);
                sort = number;
                order();
            });
            head.append(cell);
        });
        scroller.append(make('table', {}, make('thead', {}, head), body));
        node.replaceChildren(scroller);
        scroller.style.maxHeight = (options.high || 300) + 'px';
        scroller.addEventListener('scroll', () => requestAnimationFrame(draw));
        body.addEventListener('click', event => {
            const line = event.target.closest('tr[data-row]');
            if (line && options.pick)
                options.pick(Number(line.dataset.row));
        });

        scroller.addEventListener('keydown', event => {
            const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
            if (event.target !== scroller || (!by && event.key !== 'Enter'))
                return;
            event.preventDefault();
            if (by) {
                cursor = Math.max(0, Math.min(rows.length - 1, cursor + by));
                const top = cursor * HIGH;
                const high = scroller.clientHeight - 2 * HIGH; // without the titles
                scroller.scrollTop = Math.max(top - high, Math.min(scroller.scrollTop, top));
                draw();
            } else if (options.pick && cursor >= 0) {
                options.pick(rows[cursor]);
            }
        });
        scroller.addEventListener('blur', () => { cursor = -1; draw(); });

        function marks() {
            [...head.children].forEach((cell, number) => {
                if (number === sort)
                    cell.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
                else
                    cell.removeAttribute('aria-sort');
            });
        }

        function compare(a, b) {
            const { value } = columns[sort];
            const x = value(a);
            const y = value(b);
            if (x === y)
                return a - b;
            const less = typeof x === 'string' ? x < y : (x || 0) < (y || 0);
            return less !== descending ? -1 : 1;
        }

        function order() {
            if (sort === options.natural && !descending)
                rows = given;
            else if (given.length <= MAX_SORTED)
                rows = given.slice().sort(compare);
            else
                rows = best();
            marks();
            scroller.scrollTop = 0;
            draw();
        }

        // The first rows of a long list.
        function best() {
            const value = row => Number(columns[sort].value(row)) || 0;
            const keys = Float64Array.from(given, value).sort();
            const at = descending ? keys.length - 5000 : 5000;
            const limit = keys[Math.max(0, Math.min(keys.length - 1, at))];
            const isGood = descending ? row => value(row) >= limit : row => value(row) <= limit;
            return Array.from(given).filter(isGood).sort(compare).slice(0, 5000);
        }

        function line(row, number) {
            const node = make('tr');
            node.classList.toggle('picked', Boolean(options.isPicked && options.isPicked(row)));
            node.classList.toggle('cursor', number === cursor);
            node.dataset.row = row;
            for (const column of columns) {
                const text = column.show ? column.show(row) : String(column.value(row));
                const cell = make('td', { textContent: text, className: column.numeric ? 'number' : 'text' });
                if (column.numeric)
                    cell.dataset.value = column.value(row);
                else
                    cell.title = text;
                node.append(cell);
            }
            return node;
        }

        const space = lines => {
            const node = make('tr', { className: 'space' }, make('td', { colSpan: columns.length }));
            node.firstChild.style.height = lines * HIGH + 'px';
            return node;
        };

        function draw() {
            const first = printing ? 0 : Math.max(0, Math.floor(scroller.scrollTop / HIGH) - 5);
            const last = Math.min(rows.length, printing ? PRINTED : first + Math.ceil(scroller.clientHeight / HIGH) + 25);
            const lines = [];
            for (let k = first; k < last; k++)
                lines.push(line(rows[k], k));
            if (first)
                lines.unshift(space(first));
            if (last < rows.length && !printing)
                lines.push(space(rows.length - last));
            if (last < rows.length && printing)
                lines.push(make('tr', {}, make('td', { colSpan: columns.length, textContent: `and ${format.count(rows.length - last)} more, which are not printed` })));
            body.replaceChildren(...lines);
        }

        return {
            set(list) {
                given = list;
                order();
            },
            print(on) {
                printing = on;
                draw();
            },
            draw
        };
    }

    return { create, MAX_SORTED };
})();
