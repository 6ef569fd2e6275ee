# SPDX-License-Identifier: BSD-3-Clause
# A headless Chromium for tests of pages: driven over its DevTools protocol through a pair of pipes, with Python's own library.
#
#   with Browser(scratch_folder) as browser:
#       page = browser.open('file:///...')
#       page.run('expression of JavaScript')      its value
#       page.wait('expression')                   until it is true
#       page.click(x, y), page.drag(...), page.wheel(...), page.key('n'), page.type('text')
#   page.requests, page.errors: URLs that were asked for, and what went wrong in the page
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

SECONDS = float(os.environ.get('BROWSER_SECONDS', '120'))  # that one answer may take


class Failed(Exception):
    pass


def program():
    for name in ('chromium', 'chromium-browser', 'google-chrome'):
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    def __init__(self, scratch, width=1280, height=800):
        to_browser, from_browser = os.pipe(), os.pipe()
        options = ['--headless', '--remote-debugging-pipe', '--user-data-dir=' + os.path.join(scratch, 'profile'), '--no-first-run',
                   '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--disable-background-networking',
                   '--disable-component-update', '--disable-sync', '--window-size=%d,%d' % (width, height)]
        if os.geteuid() == 0:
            options.append('--no-sandbox')  # it refuses to run as root otherwise

        # The browser reads descriptor 3 and writes descriptor 4; a shell puts the two ends of the pipes there.
        self.log = open(os.path.join(scratch, 'browser.log'), 'wb')
        ends = (fcntl.fcntl(to_browser[0], fcntl.F_DUPFD, 10), fcntl.fcntl(from_browser[1], fcntl.F_DUPFD, 10))
        script = 'exec "$@" 3<&%d 4>&%d' % ends
        self.process = subprocess.Popen(['bash', '-c', script, 'bash', program()] + options + ['about:blank'], stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, pass_fds=ends, env=dict(os.environ, HOME=scratch))
        for end in ends + (to_browser[0], from_browser[1]):
            os.close(end)
        self.input, self.output = to_browser[1], from_browser[0]
        self.rest, self.number, self.events = b'', 0, []

    def __enter__(self):
        return self

    def __exit__(self, *what):
        try:
            self.call('Browser.close')
            self.process.wait(20)
        except (Failed, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.log.close()

    def _message(self, until):
        """The next message, or Failed when the time is over."""
        while b'\0' not in self.rest:
            ready, _, _ = select.select([self.output], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise Failed('the browser gave no answer within %g s' % SECONDS)
            more = os.read(self.output, 1 << 20)
            if not more:
                raise Failed('the browser has ended')
            self.rest += more
        message, _, self.rest = self.rest.partition(b'\0')
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        request = {'id': self.number, 'method': method, 'params': parameters}
        if session:
            request['sessionId'] = session
        os.write(self.input, json.dumps(request).encode() + b'\0')
        until = time.monotonic() + SECONDS
        while True:
            message = self._message(until)
            if message.get('id') == self.number:
                if 'error' in message:
                    raise Failed('%s: %s' % (method, message['error']['message']))
                return message['result']
            self.events.append(message)

    def open(self, url, before=''):
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        page = Page(self, self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId'])
        if before:
            page.call('Page.addScriptToEvaluateOnNewDocument', source=before)
        page.call('Page.navigate', url=url)
        return page


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        for domain in ('Page', 'Runtime', 'Network', 'Log', 'Security'):
            self.call(domain + '.enable')

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def run(self, expression):
        """The value of an expression; waits for promises."""
        result = self.call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in result:
            what = result['exceptionDetails']
            raise Failed('%s: %s' % (expression, what.get('exception', {}).get('description', what['text'])))
        return result['result'].get('value')

    def wait(self, expression, seconds=SECONDS):
        until = time.monotonic() + seconds
        while not self.run(expression):
            if time.monotonic() > until:
                raise Failed('%s did not become true within %g s' % (expression, seconds))
            # the page goes on by its own timers and frames
            self.run('new Promise(done => setTimeout(done, 20))')

    def _seen(self, method):
        return [e['params'] for e in self.browser.events if e.get('sessionId') == self.session and e.get('method') == method]

    @property
    def requests(self):
        return [e['request']['url'] for e in self._seen('Network.requestWillBeSent')]

    @property
    def errors(self):
        thrown = [e['exceptionDetails'].get('exception', {}).get('description', e['exceptionDetails']['text']) for e in self._seen('Runtime.exceptionThrown')]
        said = [' '.join(str(a.get('value', a.get('description'))) for a in e['args']) for e in self._seen('Runtime.consoleAPICalled') if e['type'] == 'error']
        logged = [e['entry']['text'] for e in self._seen('Log.entryAdded') if e['entry']['level'] == 'error']
        return thrown + said + logged

    def mouse(self, kind, x, y, **more):
        self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, **more)

    def click(self, x, y, count=1):
        self.mouse('mouseMoved', x, y)
        for k in range(1, count + 1):
            self.mouse('mousePressed', x, y, button='left', buttons=1, clickCount=k)
            self.mouse('mouseReleased', x, y, button='left', clickCount=k)

    def drag(self, x0, y0, x1, y1, modifiers=0):
        self.mouse('mouseMoved', x0, y0)
        self.mouse('mousePressed', x0, y0, button='left', buttons=1, clickCount=1, modifiers=modifiers)
        for k in range(1, 6):
            self.mouse('mouseMoved', x0 + (x1 - x0) * k / 5, y0 + (y1 - y0) * k / 5, button='left', buttons=1, modifiers=modifiers)
        self.mouse('mouseReleased', x1, y1, button='left', clickCount=1, modifiers=modifiers)

    def wheel(self, x, y, by, modifiers=0):
        self.mouse('mouseWheel', x, y, deltaX=0, deltaY=by, modifiers=modifiers)

    def key(self, key):
        text = {'text': key} if len(key) == 1 else {}
        self.call('Input.dispatchKeyEvent', type='keyDown', key=key, **text)
        self.call('Input.dispatchKeyEvent', type='keyUp', key=key)

    def type(self, text):
        self.call('Input.insertText', text=text)

    def picture(self, path, whole=False):
        with open(path, 'wb') as f:
            f.write(base64.b64decode(self.call('Page.captureScreenshot', format='png', captureBeyondViewport=whole)['data']))

    def pdf(self):
        return base64.b64decode(self.call('Page.printToPDF', printBackground=True, preferCSSPageSize=True)['data'])
