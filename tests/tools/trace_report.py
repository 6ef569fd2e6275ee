# SPDX-License-Identifier: BSD-3-Clause
# Drives the page of iofwd-trace report; see trace_report.sh.  A case is a function; its name and its first line of text name it.
import json
import os
import statistics
import subprocess
import sys
import time
import traceback

from browser import Browser, Failed, program

scratch, trace, run, amphora_run = sys.argv[1:5]
work = os.path.join(scratch, 'work')
LONG_RUN = int(os.environ.get('TRACE_REPORT_CALLS', '60000'))
OPEN_MS = int(os.environ.get('TRACE_REPORT_MS', '60000'))  # loose: the machine may be busy
READY = 'document.documentElement && document.documentElement.dataset.ready'
cases = []


def case(function):
    cases.append(function)
    return function


def command(*words, **options):
    result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=200, **options)
    if result.returncode:
        raise Failed('%s: exit code %d: %s' % (words[:3], result.returncode, result.stderr.decode(errors='replace')))
    return result.stdout


def folder(name):
    return os.path.join(scratch, name)


def record(name, script, environment=None):
    """Records a script of the shell."""
    subprocess.run([run, '-record', folder(name), 'sh', '-c', script], cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=200, env=dict(os.environ, **(environment or {})))


def sql(name, query):
    """Rows of an answer."""
    out = command(trace, 'sql', folder(name), query, '-json')
    return [json.loads(line, strict=False) for line in out.decode(errors='replace').splitlines()]


def one(name, query):
    """The first row of an answer, without the names of its columns; nothing is 0."""
    return [value or 0 for value in sql(name, query)[0].values()]


def page_of(name, *options):
    path = os.path.join(scratch, name + '.html')
    if not os.path.exists(path):
        command(trace, 'report', folder(name), '-o', path, *options)
    return path


def same(what, is_so, wanted):
    if is_so != wanted:
        raise Failed('%s: %r, not %r' % (what, is_so, wanted))


def true(what, is_so):
    if not is_so:
        raise Failed(what)


# ---- the page as a reader uses it ----

SUMS = 'count(*), sum(failed), sum(ns), sum(CASE class WHEN \'read\' THEN bytes END), sum(CASE class WHEN \'write\' THEN bytes END)'


def show(browser, name, *options):
    page = browser.open('file://' + page_of(name, *options))
    page.wait(READY)
    same('the page has opened', page.run('document.documentElement.dataset.ready') != 'failed' or page.run('document.getElementById("notice").textContent'), True)
    return page


def counts(page):
    """What the page says of the calls that it shows."""
    return page.run('(d => [d.calls, d.failed, d.ns, d.read, d.written].map(Number))(document.getElementById("count").dataset)')


def expect(page, name, where, what):
    """Waits until the page has SQL's numbers of some calls."""
    wanted = one(name, 'SELECT %s FROM calls WHERE %s' % (SUMS, where))
    until = time.monotonic() + 60
    while counts(page) != wanted:
        if time.monotonic() > until:
            raise Failed('%s: the page has %r, SQL has %r for %s' % (what, counts(page), wanted, where))
        page.run('new Promise(done => setTimeout(done, 30))')


def box(page, selector):
    """The middle, left, top, width and height of an element that is scrolled into view."""
    page.run('document.querySelector(%s).scrollIntoView({ block: "center" })' % json.dumps(selector))
    return page.run('(r => ({ x: r.x + r.width / 2, y: r.y + r.height / 2, left: r.x, top: r.y, width: r.width, height: r.height }))'
                    '(document.querySelector(%s).getBoundingClientRect())' % json.dumps(selector))


def click(page, selector, count=1):
    place = box(page, selector)
    page.click(place['x'], place['y'], count)


def search(page, text):
    page.run('document.getElementById("search").value = ""')
    page.run('document.getElementById("search").focus()')
    page.type(text)
    if not text:
        page.run('document.getElementById("search").dispatchEvent(new Event("input"))')
    page.wait('document.activeElement.id === "search" && document.getElementById("search").value === %s' % json.dumps(text))


def choose(page, selector, value):
    page.run('(s => { s.value = %s; s.dispatchEvent(new Event("change")); s.dispatchEvent(new Event("input")); })(document.querySelector(%s))' %
             (json.dumps(value), json.dumps(selector)))


def span(page):
    """The times that the page shows, as it says them in full."""
    return page.run('(d => [Number(d.from), Number(d.to)])(document.getElementById("window").dataset)')


def picture(page, selector):
    return page.run('document.querySelector(%s).toDataURL()' % json.dumps(selector))


def rows(page, selector):
    """All lines of a table that is short enough to be in the document."""
    return page.run('[...document.querySelectorAll(%s + " tr[data-row]")].map(line => [...line.children].map(cell => '
                    'cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value)))' % json.dumps(selector))


# ---- cases ----

@case
def numbers(browser):
    """the numbers of the page are SQL's: all calls, kinds, files"""
    page = show(browser, 'run')
    expect(page, 'run', '1', 'all calls')
    kinds = page.run('Object.fromEntries([...document.querySelectorAll(".kind")].map(b => [b.dataset.kind, [Number(b.dataset.calls), Number(b.dataset.ns)]]))')
    same('kinds', kinds, {row['class']: [row['n'], row['ns'] or 0] for row in sql('run', 'SELECT class, count(*) AS n, sum(ns) AS ns FROM calls GROUP BY class')})

    wanted = sql('run', "SELECT path, count(DISTINCT process) AS p, count(*) AS n, sum(class = 'open' AND NOT failed) AS o, sum(class = 'read') AS r, "
                 "sum(CASE class WHEN 'read' THEN bytes ELSE 0 END) AS br, sum(class = 'write') AS w, sum(CASE class WHEN 'write' THEN bytes ELSE 0 END) AS bw, "
                 "sum(class = 'meta') AS m, sum(failed) AS f, sum(ns) AS ns FROM calls WHERE path IS NOT NULL GROUP BY path ORDER BY ns DESC")
    shown = rows(page, '#files')
    true('there are files', len(shown) > 10)
    by_path = {row['path']: [value or 0 for value in row.values()] for row in wanted}
    for line in shown:
        same('the file %s' % line[0], line[:11], by_path[line[0]])
    same('the files', page.run('document.getElementById("files-note").textContent'), '{:,}'.format(len(wanted)))
    same('the order of the files', [line[10] for line in shown], [row['ns'] for row in wanted][:len(shown)])

    # the table's own filters
    for use, fits in (('read', lambda r: r['br'] and not r['bw']), ('written', lambda r: r['bw'] and not r['br']), ('both', lambda r: r['br'] and r['bw']),
                      ('names', lambda r: not r['br'] and not r['bw']), ('failed', lambda r: r['f']), ('forwarded', lambda r: False), ('', lambda r: True)):
        choose(page, '#files-use', use)
        same('files: ' + use, page.run('document.getElementById("files-note").textContent').split(' ')[0], '{:,}'.format(len([r for r in wanted if fits(r)])))
    choose(page, '#files-text', 'DATA.')
    same('files with a part of a path', sorted(line[0] for line in rows(page, '#files')), sorted(r['path'] for r in wanted if 'data.' in r['path'].lower()))
    choose(page, '#files-text', '')
    click(page, '#files-system')
    same("files without the system's", page.run('[...document.querySelectorAll("#files td:first-child")].some(cell => cell.textContent.startsWith("/usr/"))'), False)


@case
def findings(browser):
    """the findings are those of patterns, and each leads to its calls"""
    page = show(browser, 'run')
    wanted = [json.loads(line) for line in command(trace, 'patterns', folder('run'), '-json').splitlines()]
    if page.run('document.getElementById("findings-all") !== null'):
        click(page, '#findings-all')
    shown = page.run('[...document.querySelectorAll("#findings li[data-ns]")].map(li => [li.querySelector("h3").textContent, Number(li.dataset.ns), li.querySelector(".remedy").textContent])')
    same('findings', sorted(shown), sorted([f['finding'], f['ns'] or 0, f['remedy']] for f in wanted))

    for number, line in enumerate(shown):
        if line[0] == 'many small writes':
            click(page, '#findings li:nth-child(%d) button' % (number + 1))
            path = [f['subject'] for f in wanted if f['finding'] == 'many small writes'][0]
            expect(page, 'run', "class = 'write' AND '%s' IN (path, coalesce(path2, ''))" % path, 'the calls of a finding')
            return
    raise Failed('no finding of small writes')


@case
def alike(browser):
    """findings that differ in their file only are one line with their sum, and each is a click away"""
    page = show(browser, 'long')
    wanted = [f for f in (json.loads(line) for line in command(trace, 'patterns', folder('long'), '-json').splitlines()) if f['finding'] == 'many small writes']
    true('%d findings' % len(wanted), len(wanted) > 3)
    lines = '[...document.querySelectorAll("#findings li[data-ns]")].filter(li => li.querySelector("h3").textContent === "many small writes").map(li => Number(li.dataset.ns))'
    same('their sum', page.run(lines), [sum(f['ns'] for f in wanted)])
    click(page, '#findings li:nth-child(%d) button' % (1 + page.run('[...document.querySelectorAll("#findings h3")].findIndex(h => h.textContent === "many small writes")')))
    expect(page, 'long', "class = 'write'", 'the calls of them all')
    click(page, '#findings-all')
    same('each', sorted(page.run(lines)), sorted(f['ns'] for f in wanted))


@case
def time_zoom(browser):
    """zoom: wheel, keys, drags and buttons change the time that is shown, and the numbers with it"""
    page = show(browser, 'run')
    whole = span(page)
    line = box(page, '#timeline')

    def shown(what, before):
        page.wait('JSON.stringify((d => [Number(d.from), Number(d.to)])(document.getElementById("window").dataset)) !== %s' % json.dumps(json.dumps(before, separators=(',', ':'))))
        now = span(page)
        expect(page, 'run', 'start_ns >= %r AND start_ns < %r' % tuple(now), what)
        return now

    before = picture(page, '#timeline')
    page.wheel(line['left'] + 600, line['y'], -100, modifiers=2)
    wheel = shown('the wheel', whole)
    true('the wheel makes the span shorter: %r' % wheel, wheel[1] - wheel[0] < whole[1] - whole[0])
    true('the timeline is another picture', picture(page, '#timeline') != before)
    page.key('+')
    key = shown('a key', wheel)
    page.key('ArrowRight')
    moved = shown('an arrow', key)
    true('an arrow moves to later times', moved[0] > key[0])
    page.key('0')
    same('the whole run', shown('0', moved), whole)

    page.drag(line['left'] + 300, line['y'], line['left'] + 700, line['y'])
    drag = shown('a drag', whole)
    scale = (line['width'] - 178) / (whole[1] - whole[0])
    true('the span is what was dragged over: %r' % drag, abs(drag[0] - whole[0] - 130 / scale) < 3 / scale and abs(drag[1] - drag[0] - 400 / scale) < 3 / scale)
    page.drag(line['left'] + 600, line['y'], line['left'] + 500, line['y'], modifiers=8)
    true('a drag with Shift moves', shown('Shift and drag', drag)[0] > drag[0])
    click(page, '#whole')
    page.wait('document.getElementById("whole").disabled')
    chart = box(page, '#bandwidth .u-over')
    page.drag(chart['left'] + 50, chart['y'], chart['left'] + 250, chart['y'])
    chart_span = shown('a drag over a chart', whole)
    click(page, '#zoom-out')
    shown('a button', chart_span)
    page.click(line['left'] + 600, box(page, '#timeline')['y'], 2)
    page.wait('document.getElementById("whole").disabled')


@case
def filters(browser):
    """filters: kinds, failed, side, a file, the words of the search field"""
    page = show(browser, 'run')
    click(page, '.kind[data-kind="read"]')
    expect(page, 'run', "class <> 'read'", 'without reads')
    click(page, '.kind[data-kind="read"]')
    expect(page, 'run', '1', 'reads again')
    click(page, '#failed')
    expect(page, 'run', 'failed', 'failed calls')
    page.run('document.activeElement.blur()')
    page.key('Escape')
    expect(page, 'run', '1', 'Escape')

    words = {
        'kind:read,write': "class IN ('read', 'write')",
        '-kind:read,write': "class NOT IN ('read', 'write')",
        'call:stat': "name LIKE '%stat%'",
        'path:/data.': "path LIKE '%/data.%' OR path2 LIKE '%/data.%'",
        'data.1': "path LIKE '%data.1%' OR path2 LIKE '%data.1%'",
        'errno:ENOENT': 'errno = 2',
        'ENOENT kind:open': "errno = 2 AND class = 'open'",
        'bytes>=1000 bytes<5000': 'bytes >= 1000 AND bytes < 5000',
        'ns>20000': 'ns > 20000',
        'us>20 kind:write': "ns > 20000 AND class = 'write'",
        'offset>=4096': 'offset >= 4096',
        'fd:1': 'fd = 1',
        'side:local': "side = 'local'",
        'exe:/dd': "process IN (SELECT process FROM processes WHERE exe LIKE '%/dd%')",
        '"no such words"': '0',
    }
    for text, where in words.items():
        search(page, text)
        expect(page, 'run', where, 'search: ' + text)
    pid = one('run', 'SELECT max(pid) FROM processes')[0]
    search(page, 'pid:%d' % pid)
    expect(page, 'run', 'pid = %d' % pid, 'pid')
    search(page, 'colour:red')
    page.wait('document.getElementById("wrong").textContent.includes("no search word")')
    search(page, 'bytes>many')
    page.wait('document.getElementById("wrong").textContent.includes("is no number")')
    search(page, '')
    expect(page, 'run', '1', 'no search')
    page.wait('document.getElementById("wrong").textContent === ""')

    click(page, '#files tbody tr[data-row] td')
    path = page.run('document.querySelector("#files tr.picked td, #file-name").title')
    expect(page, 'run', "path = '%s' OR path2 = '%s'" % (path, path), 'a click on a file')
    page.run('document.activeElement.blur()')
    page.key('Escape')
    expect(page, 'run', '1', 'Escape')

    # the second line, by keys
    page.run('document.querySelector("#files .scroller").focus()')
    page.key('ArrowDown')
    page.key('ArrowDown')
    path = page.run('document.querySelector("#files tr.cursor td").title')
    same('the second line', path, page.run('document.querySelectorAll("#files tr[data-row] td:first-child")[1].title'))
    page.key('Enter')
    expect(page, 'run', "path = '%s' OR path2 = '%s'" % (path, path), 'a file by keys')


@case
def one_call(browser):
    """a call: search moves from one to the next, the details are SQL's, the timeline shows it"""
    page = show(browser, 'run')
    search(page, 'errno:ENOENT kind:open')
    expect(page, 'run', "errno = 2 AND class = 'open'", 'search')
    page.run('document.activeElement.blur()')
    wanted = sql('run', "SELECT id, name, start_ns, ns, result, path FROM calls WHERE errno = 2 AND class = 'open' ORDER BY id")
    detail = 'document.querySelector("#details [data-field=%s] dd")'
    true('calls to step through', len(wanted) >= 2)
    for row in wanted[:2]:
        page.key('n')
        page.wait('(n => n && n.textContent === %s)(%s)' % (json.dumps('{:,}'.format(row['id'])), detail % 'number'))
        same('call', page.run(detail % 'call' + '.textContent'), row['name'])
        same('start', page.run(detail % 'start' + '.textContent'), '{:,} ns'.format(row['start_ns']))
        true('duration', '({:,} ns)'.format(row['ns']) in page.run(detail % 'duration' + '.textContent'))
        same('error', page.run(detail % 'error' + '.textContent'), 'ENOENT (No such file or directory)')
        same('file', page.run(detail % 'file' + '.textContent'), row['path'])
    page.key('p')
    page.wait('%s.textContent === %s' % (detail % 'number', json.dumps('{:,}'.format(wanted[0]['id']))))

    # the longest write is a box of its colour in the middle of the timeline
    search(page, '')
    longest = sql('run', "SELECT id, start_ns, ns FROM calls WHERE class = 'write' ORDER BY ns DESC LIMIT 1")[0]
    search(page, 'kind:write ns>=%d' % longest['ns'])
    expect(page, 'run', "class = 'write' AND ns >= %d" % longest['ns'], 'the longest write')
    page.run('document.activeElement.blur()')
    page.key('n')
    page.wait('(n => n && n.textContent === %s)(%s)' % (json.dumps('{:,}'.format(longest['id'])), detail % 'number'))
    page.run('[...document.querySelectorAll("#details button")].find(b => b.textContent === "Zoom to it").click()')
    # three times as long as the call, which is in the middle third
    page.wait('(d => Math.abs(d.to - d.from - 3 * %d) < 2)(document.getElementById("window").dataset)' % longest['ns'])
    page.run('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))')
    found = page.run('''(() => {
        const node = document.getElementById('timeline');
        const probe = document.createElement('canvas').getContext('2d');
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--kind-write').trim();
        probe.fillRect(0, 0, 1, 1);
        const wanted = probe.getImageData(0, 0, 1, 1).data;
        const pixels = node.getContext('2d').getImageData(0, 0, node.width, node.height).data;
        let first = node.width, last = -1;
        for (let y = 24; y < node.height; y++)
            for (let x = 170; x < node.width; x++) {
                const k = 4 * (y * node.width + x);
                if (pixels[k] === wanted[0] && pixels[k + 1] === wanted[1] && pixels[k + 2] === wanted[2]) {
                    first = Math.min(first, x);
                    last = Math.max(last, x);
                }
            }
        return [(first - 170) / (node.width - 178), (last - 170) / (node.width - 178)];
    })()''')
    true('its box is in the middle third: %r' % found, abs(found[0] - 1 / 3) < 0.02 and abs(found[1] - 2 / 3) < 0.02)


@case
def calls_table(browser):
    """the table of calls: sorted by duration it has SQL's longest calls"""
    page = show(browser, 'run')
    click(page, '#calls th[data-column="duration"] button')
    page.wait('document.querySelector("#calls th[data-column=duration]").getAttribute("aria-sort") === "descending"')
    wanted = sql('run', 'SELECT ns FROM calls WHERE ns IS NOT NULL ORDER BY ns DESC LIMIT 10')
    same('the longest calls', [line[7] for line in rows(page, '#calls')[:10]], [row['ns'] for row in wanted])
    click(page, '#calls tbody tr[data-row] td')
    page.wait('document.querySelector("#details [data-field=duration]") !== null')
    true('a click shows it', '({:,} ns)'.format(wanted[0]['ns']) in page.run('document.querySelector("#details [data-field=duration] dd").textContent'))


def legends(page, selector, step):
    """What the legend of a chart says at the places of its cursor, so many pixels apart."""
    place = box(page, selector + ' .u-over')
    found = []
    for x in range(2, int(place['width']), step):
        page.mouse('mouseMoved', place['left'] + x, place['y'])
        line = page.run('[...document.querySelectorAll(%s + " .u-series")].map(s => s.querySelector(".u-value").textContent)' % json.dumps(selector))
        if not found or found[-1] != line:
            found.append(line)
    return found


@case
def distributions(browser):
    """the distributions of sizes and durations have SQL's counts"""
    page = show(browser, 'run')
    for selector, value, kinds in (('#sizes', 'bytes', (('read',), ('write',))), ('#latency', 'ns', (('read',), ('write',), None))):
        shown = [tuple(line[1:]) for line in legends(page, selector, 8) if line[0]]
        wanted = []
        for names in kinds:
            where = "class NOT IN ('read', 'write')" if names is None else "class = '%s'" % names[0]
            # by the power of two below the value: the number of its binary digits
            values = [row['v'] for row in sql('run', 'SELECT %s AS v FROM calls WHERE returned AND %s' % (value, where))]
            power = {}
            for v in values:
                power[v.bit_length()] = power.get(v.bit_length(), 0) + 1
            wanted.append(power)
        bars = sorted({key for power in wanted for key in power})
        expected = [tuple('{:,}'.format(power.get(key, 0)) for power in wanted) for key in bars]
        same(selector, [line for line in shown if any(v not in ('', '0') for v in line)], expected)

        # a click in the middle of the chart, on the range that the legend names there
        place = box(page, selector + ' .u-over')
        page.click(place['x'], place['y'])
        page.wait('document.getElementById("search").value.includes("%s<")' % value)
        low, high = page.run('(t => [Number(t.match(/>=(\\d+)/)[1]), Number(t.match(/<(\\d+)/)[1])])(document.getElementById("search").value)')
        expect(page, 'run', '%s >= %d AND %s < %d%s' % (value, low, value, high, " AND class IN ('read', 'write')" if value == 'bytes' else ''), 'a click on a bar')
        true('a power of two: %r' % [low, high], high == max(1, 2 * low))
        page.run('document.activeElement.blur()')
        page.key('Escape')
        expect(page, 'run', '1', 'Escape')


@case
def bandwidth(browser):
    """bandwidth over time adds up to SQL's bytes"""
    page = show(browser, 'run')
    units = {'B/s': 1, 'kB/s': 1e3, 'MB/s': 1e6, 'GB/s': 1e9, 'TB/s': 1e12}
    sums, seen = [0.0, 0.0], {}
    for line in legends(page, '#bandwidth', 2):
        if line[0]:
            seen[line[0]] = line[1:]
    begin, end = span(page)
    for line in seen.values():
        for k in (0, 1):
            number, unit = line[k].split(' ')
            sums[k] += float(number) * units[unit] * (end - begin) / 240 / 1e9
    same('places of the cursor', len(seen), 240)
    wanted = one('run', "SELECT sum(CASE class WHEN 'read' THEN bytes END), sum(CASE class WHEN 'write' THEN bytes END) FROM calls")
    for k in (0, 1):
        true('bytes: %r, not %r' % (sums, wanted), abs(sums[k] - wanted[k]) < 0.02 * wanted[k])


@case
def heat_map(browser):
    """the heat map: a file that is written in order is a diagonal; its reads and other files are other pictures"""
    page = show(browser, 'ordered')
    path = os.path.join(work, 'order')
    option = page.run('(o => o ? o.value : "")([...document.querySelectorAll("#heat-file option")].find(o => o.title === %s))' % json.dumps(path))
    true('the list has the file', option)
    choose(page, '#heat-file', option)
    spots = '''(() => {
        const node = document.getElementById('heat');
        const width = node.width, pixels = node.getContext('2d').getImageData(0, 0, width, node.height).data;
        const columns = new Map(); // x: the ys there
        for (let y = 0; y < node.height - 24; y++)
            for (let x = 71; x < width - 9; x += 3) { // the width of a cell
                const k = 4 * (y * width + x);
                if (pixels[k + 3] > 30 && pixels[k] - pixels[k + 2] > 60) { // orange: written
                    columns.set(x, [...(columns.get(x) || []), y]);
                }
            }
        const all = [...columns.keys()].sort((a, b) => a - b).map(x => columns.get(x));
        const lowest = all.length ? Math.max(...all[0]) : 0; // y grows downwards
        const highest = all.length ? Math.min(...all[all.length - 1]) : 0;
        const falls = all.some((ys, k) => k > 0 && Math.max(...ys) > Math.min(...all[k - 1]) + 12);
        return [all.length, falls, (lowest - highest) / node.height];
    })()'''
    page.wait('(%s)[0] > 3' % spots)
    count, falls, part = page.run(spots)
    true('a later write is never before an earlier one', not falls)
    true('from the beginning to the end of the file: %r' % part, part > 0.8)
    written = picture(page, '#heat')
    search(page, 'kind:read')
    expect(page, 'ordered', "class = 'read'", 'reads')
    page.wait('document.getElementById("heat").toDataURL() !== %s' % json.dumps(written))
    same('nothing was read', page.run(spots)[0], 0)


@case
def quiet(browser):
    """no request but the page itself, no error; a request of a script is refused"""
    page = show(browser, 'run')
    same('requests', page.requests, ['file://' + os.path.join(scratch, 'run.html')])
    same('errors', page.errors, [])
    same('fetch', page.run('fetch("https://example.org/").then(() => "sent", () => "refused")'), 'refused')
    same('an image', page.run('new Promise(done => { const i = new Image(); i.onload = () => done("loaded"); i.onerror = () => done("refused"); i.src = "file:///etc/hostname"; })'), 'refused')
    same('HTML of a string', page.run('(() => { try { document.body.innerHTML = "<b>x</b>"; return "taken"; } catch { return "refused"; } })()'), 'refused')


@case
def hostile(browser):
    """paths that are HTML, scripts, quotes, control characters or no UTF-8 are shown as text"""
    page = show(browser, 'hostile')
    same('errors', page.errors, [])
    same('requests', len(page.requests), 1)
    same('nothing of a path has run', page.run('[window.hacked === undefined, document.querySelectorAll("img, iframe, object, link, b.x").length, document.scripts.length]'), [True, 0, 2])
    choose(page, '#files-text', '/h/') # the first lines of the table are in the document
    shown = page.run('[...document.querySelectorAll("#files td.text")].map(cell => cell.textContent)')
    for name in ('/<img src=x onerror=hacked=1>', '/a"b\'c&amp;', '/x]]>-->', '/new\\u000aline', '/turn\\u202eed', '/no\\xff utf', '/@DATA@@NONCE@'):
        true('%s is shown, in %r' % (name, shown), any(path.endswith(name) for path in shown))
    true('a path with a script', any('</script><script>hacked=1<' in path for path in shown))
    search(page, '<img src=x')
    search(page, '"<img src=x"')
    expect(page, 'hostile', "path LIKE '%<img src=x%'", 'search for it')
    page.run('document.activeElement.blur()')
    page.key('n')
    page.wait('document.querySelector("#details [data-field=file]") !== null')
    same('still nothing has run', page.run('[window.hacked === undefined, document.querySelectorAll("img").length]'), [True, 0])


@case
def processes(browser):
    """the processes: their calls, bytes and times are SQL's; a click shows the calls of one"""
    page = show(browser, 'forwarded')
    wanted = sql('forwarded', "SELECT coalesce(rank, -1) AS rank, pid, count(*) AS n, sum(failed) AS f, sum(CASE class WHEN 'read' THEN bytes ELSE 0 END) AS r, "
                 "sum(CASE class WHEN 'write' THEN bytes ELSE 0 END) AS w, sum(ns) AS ns, max(coalesce(ns, 0)) AS longest FROM calls GROUP BY process ORDER BY ns DESC")
    shown = [line[:2] + line[7:] for line in rows(page, '#processes')]
    same('their numbers', sorted(shown), sorted([value or 0 for value in row.values()] for row in wanted)[:len(shown)])
    same('all of them', len(shown), len(wanted))
    click(page, '#processes tbody tr[data-row] td')
    exe = sql('forwarded', 'SELECT exe FROM processes WHERE process = (SELECT process FROM calls GROUP BY process ORDER BY sum(ns) DESC LIMIT 1)')[0]['exe']
    expect(page, 'forwarded', "pid = %d AND process IN (SELECT process FROM processes WHERE exe LIKE '%%%s%%')" % (wanted[0]['pid'], exe), 'a click on a process')


@case
def address(browser):
    """the address of the page has the span and the filter, and a page that is opened with it shows the same"""
    page = show(browser, 'run')
    click(page, '.kind[data-kind="read"]')
    search(page, '-path:/usr/lib us<100000')
    expect(page, 'run', "class <> 'read' AND coalesce(path, '') NOT LIKE '%/usr/lib%' AND coalesce(path2, '') NOT LIKE '%/usr/lib%' AND ns < 100000000", 'a filter')
    page.run('document.activeElement.blur()')
    page.key('+')
    page.wait('!document.getElementById("whole").disabled && location.hash.includes("time=")')
    begin, end = span(page)
    begin, end = round(begin), round(end)
    other = browser.open(page.run('location.href'))
    other.wait(READY)
    where = "class <> 'read' AND coalesce(path, '') NOT LIKE '%%/usr/lib%%' AND coalesce(path2, '') NOT LIKE '%%/usr/lib%%' AND ns < 100000000 AND start_ns >= %d AND start_ns < %d"
    expect(other, 'run', where % (begin, end), 'the address')
    same('errors', other.errors, [])


@case
def servers(browser):
    """the servers: calls, requests, bytes and times of each are SQL's; a click shows its calls"""
    page = show(browser, 'forwarded')
    expect(page, 'forwarded', '1', 'all calls')
    wanted = sql('forwarded', "SELECT server, count(*) AS n, sum(requests) AS q, sum(failed) AS f, sum(CASE class WHEN 'read' THEN bytes ELSE 0 END) AS r, "
                 "sum(CASE class WHEN 'write' THEN bytes ELSE 0 END) AS w, sum(ns) AS ns, sum(queue_ns) AS qns, sum(file_ns) AS fns, max(0, sum(ns) - sum(server_ns)) AS way "
                 'FROM calls WHERE server IS NOT NULL GROUP BY server ORDER BY server')
    same('servers', len(wanted), 2)
    same('their numbers', [line[:10] for line in rows(page, '#servers')], [list(row.values()) for row in wanted])
    true('charts', page.run('document.querySelectorAll("#servers-rate canvas, #servers-time canvas").length') == 2)
    click(page, '#servers tbody tr[data-row] td')
    expect(page, 'forwarded', 'server = %d' % wanted[0]['server'], 'a click on a server')
    choose(page, '#side', 'local')
    expect(page, 'forwarded', "server = %d AND side = 'local'" % wanted[0]['server'], 'none')
    page.wait('document.getElementById("servers-note").textContent === "none of these calls was forwarded"')
    rank = one('forwarded', 'SELECT max(rank) FROM calls')[0]
    page.run('document.activeElement.blur()')
    page.key('Escape')
    search(page, 'rank:%d' % rank)
    expect(page, 'forwarded', 'rank = %d' % rank, 'a rank')


@case
def themes(browser):
    """dark and light follow the system and the switch; print is light, with all that fits"""
    page = show(browser, 'run')
    colour = 'getComputedStyle(document.body).backgroundColor'

    def system(scheme, media=''):
        page.call('Emulation.setEmulatedMedia', media=media, features=[{'name': 'prefers-color-scheme', 'value': scheme}])

    system('light')
    light = page.run(colour)
    light_picture = picture(page, '#timeline')
    system('dark')
    page.wait('%s !== %s' % (colour, json.dumps(light)))
    dark = page.run(colour)
    page.wait('document.getElementById("timeline").toDataURL() !== %s' % json.dumps(light_picture))
    choose(page, '#theme', 'light')
    same('the switch', page.run(colour), light)
    page.run('document.activeElement.blur()')
    page.key('t')
    same('the key', page.run(colour), dark)
    choose(page, '#theme', 'auto')
    system('dark', 'print')
    page.wait('document.documentElement.dataset.theme === "light"')
    same('nothing to press in print', page.run('[...document.querySelectorAll("button, nav, #search")].filter(n => n.offsetParent !== null && getComputedStyle(n).display !== "none" && !n.classList.contains("kind") && !n.classList.contains("column")).length'), 0)
    same('columns have titles in print', page.run('[...document.querySelectorAll("#files th button")].every(n => n.offsetHeight > 0)'), True)
    system('dark')
    page.wait('document.documentElement.dataset.theme === "auto"')
    same('dark again', page.run(colour), dark)
    true('a PDF', page.pdf().startswith(b'%PDF-'))
    page.wait('document.documentElement.dataset.theme === "auto"')


def opened(browser, path):
    """Milliseconds until the page had been drawn."""
    page = browser.open('file://' + path)
    page.wait(READY, OPEN_MS / 1000 + 30)
    ms = int(page.run('document.documentElement.dataset.ready'))
    page.call('Page.close')
    return ms


@case
def long_run(browser):
    """a long run opens in time, with SQL's numbers"""
    path = page_of('long')
    times = [opened(browser, path) for _ in range(5 if LONG_RUN >= 1000000 else 1)]
    true('30 MB: %d' % os.path.getsize(path), os.path.getsize(path) <= 30000000)
    calls = one('long', 'SELECT count(*) FROM calls')[0]
    print('# %d calls: a page of %.1f MB that opens in %d ms (median of %d; load %.1f)' %
          (calls, os.path.getsize(path) / 1e6, statistics.median(times), len(times), os.getloadavg()[0]))
    true('it opens within %d ms: %r' % (OPEN_MS, times), statistics.median(times) <= OPEN_MS)
    page = show(browser, 'long')
    expect(page, 'long', '1', 'a long run')


@case
def too_long(browser):
    """beyond the size: a sentence; sums, the failed and the slowest calls have SQL's totals"""
    page = show(browser, 'random', '-size', '1')
    true('1 MB', os.path.getsize(os.path.join(scratch, 'random.html')) <= 1000000)
    notice = page.run('document.getElementById("notice").hidden ? "" : document.getElementById("notice").textContent')
    true('a sentence: ' + notice, 'did not fit into this page one by one' in notice and notice.count('.') >= 1)
    expect(page, 'random', '1', 'calls and sums')
    kinds = page.run('Object.fromEntries([...document.querySelectorAll(".kind")].map(b => [b.dataset.kind, [Number(b.dataset.calls), Number(b.dataset.ns)]]))')
    same('kinds', kinds, {row['class']: [row['n'], row['ns'] or 0] for row in sql('random', 'SELECT class, count(*) AS n, sum(ns) AS ns FROM calls GROUP BY class')})
    click(page, '#failed')
    expect(page, 'random', 'failed', 'all failed calls')
    click(page, '#failed')
    click(page, '#calls th[data-column="duration"] button')
    page.wait('document.querySelector("#calls th[data-column=duration]").getAttribute("aria-sort") === "descending"')
    wanted = sql('random', 'SELECT ns FROM calls WHERE ns IS NOT NULL ORDER BY ns DESC LIMIT 10')
    same('the slowest calls', [line[7] for line in rows(page, '#calls')[:10]], [row['ns'] for row in wanted])


@case
def budget(browser):
    """calls beyond the recorder's budget are there as sums, and the page says so"""
    page = show(browser, 'budget')
    summed = one('budget', 'SELECT summed_calls FROM losses')[0]
    true('there are sums', summed > 1000)
    true('a sentence', '{:,} calls were beyond IOFWD_TRACE_BUDGET'.format(summed) in page.run('document.getElementById("notice").textContent'))
    wanted = one('budget', "SELECT (SELECT count(*) FROM calls) + (SELECT sum(calls) FROM totals), (SELECT sum(failed) FROM calls) + (SELECT sum(errors) FROM totals), "
                 '(SELECT sum(ns) FROM calls) + (SELECT sum(ns) FROM totals)')
    same('calls and sums', counts(page)[:3], wanted)


@case
def damaged(browser):
    """a page whose data is damaged says so in a sentence"""
    path = page_of('small')
    with open(path) as f:
        text = f.read()
    at = text.index('id="data">') + 200
    with open(path, 'w') as f:
        f.write(text[:at] + text[at + 4:])
    page = browser.open('file://' + path)
    page.wait(READY)
    true('a sentence', 'its data is damaged' in page.run('document.getElementById("notice").textContent'))


@case
def empty(browser):
    """a run without a call"""
    page = show(browser, 'nothing')
    same('errors', page.errors, [])
    calls = one('nothing', 'SELECT count(*) FROM calls')[0]
    same('calls', counts(page)[0], calls)


HOSTILE = r'''
import os
names = [b'<img src=x onerror=hacked=1>', b'a"b\'c&amp;', b'x]]>-->', b'new\nline', 'turn\u202eed'.encode(), b'no\xff utf', b'@DATA@@NONCE@']
os.mkdir('h')
os.makedirs(b'h/<')
os.mkdir(b'h/<' + b'/script><script>hacked=1<')
for name in names + [b'</script><script>hacked=1</script>']:
    with open(b'h/' + name, 'wb') as f:
        f.write(b'x')
'''

RANDOM = r'''
import os, random
random.seed(1)
fd = os.open('random', os.O_RDWR | os.O_CREAT)
os.truncate(fd, 1 << 30)
for i in range(90000):
    os.pread(fd, random.randrange(1, 5000), random.randrange(1 << 30))
for i in range(200):
    try:
        os.stat('none%d' % i)
    except OSError:
        pass
'''


def prepare():
    python = sys.executable
    record('run', 'for i in 1 2 3; do dd if=/dev/zero of=data.$i bs=3000 count=150; dd if=data.$i of=/dev/null bs=4096; done; '
           'cp data.1 copy; mv copy moved; cat none; ls -l; rm moved')
    record('ordered', 'exec dd if=/dev/zero of=order bs=8192 count=3000')
    with open(os.path.join(scratch, 'hostile.py'), 'w') as f:
        f.write(HOSTILE)
    with open(os.path.join(scratch, 'places.py'), 'w') as f:
        f.write(RANDOM)
    record('hostile', '%s %s/hostile.py' % (python, scratch))
    record('random', '%s %s/places.py' % (python, scratch))
    record('long', 'for i in 1 2 3 4; do dd if=/dev/zero of=m$i bs=512 count=%d & done; wait' % (LONG_RUN // 8))
    record('budget', '%s %s/places.py' % (python, scratch), {'IOFWD_TRACE_BUDGET': '1M'})
    record('small', 'echo a >a')
    command(run, '-record', folder('nothing'), 'true')
    os.mkdir(folder('kept'))
    command(amphora_run, '-n', '2', '-servers', '2', '-iofwd', '/fwd=' + folder('kept'), '-record', folder('forwarded'), '-timeout', '100', 'sh', '-c',
            'for i in 1 2; do dd if=/dev/zero of=/fwd/a$AMPHORA_RANK.$i bs=9000 count=50; dd if=/fwd/a$AMPHORA_RANK.$i of=/dev/null bs=4096; done; cat /fwd/none; true', cwd=work)


def main():
    wanted = os.environ.get('MP_CASE', '')
    if not program():
        for function in cases:
            print('skip %s: no Chromium here (Debian: chromium)' % function.__doc__)
        return
    prepare()
    with Browser(scratch) as browser:
        for function in cases:
            if wanted not in function.__doc__:
                continue
            try:
                function(browser)
                print('ok ' + function.__doc__, flush=True)
            except Exception:
                print('not ok ' + function.__doc__)
                print(''.join('# ' + line + '\n' for line in traceback.format_exc().splitlines()[-8:]), end='', flush=True)


main()
