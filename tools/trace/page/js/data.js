// The run's data: decoded from the block in the page into columns of numbers.
const data = (() => {
    async function inflate(bytes) {
        const stream = new Response(bytes).body.pipeThrough(new DecompressionStream('deflate'));
        return new Uint8Array(await new Response(stream).arrayBuffer());
    }

    function fromBase64(text) {
        if (Uint8Array.fromBase64)
            return Uint8Array.fromBase64(text);

        const binary = atob(text);
        const bytes = new Uint8Array(binary.length);
        for (let i = 0; i < bytes.length; i++)
            bytes[i] = binary.charCodeAt(i);
        return bytes;
    }

    // Numbers of 7 bits a byte, the lowest first.  A column of zeros has no bytes.
    function numbers(bytes, values, n = values.length) {
        let at = 0;
        if (!bytes.length)
            return values;
        for (let i = 0; i < n; i++) {
            let byte = bytes[at++];
            if (byte < 128) {
                values[i] = byte;
                continue;
            }
            let value = byte & 127;
            for (let shift = 7; byte > 127 && shift < 28; shift += 7) {
                byte = bytes[at++];
                value |= (byte & 127) << shift;
            }
            for (let factor = 268435456; byte > 127; factor *= 128) {
                byte = bytes[at++];
                value += (byte & 127) * factor;
            }
            values[i] = value;
        }
        if (at !== bytes.length)
            throw new Error('a column of the page has another length than it says');
        return values;
    }

    function signed(values, n = values.length) {
        for (let i = 0; i < n; i++) {
            const half = Math.floor(values[i] / 2);
            values[i] = half * 2 === values[i] ? half : -half - 1;
        }
        return values;
    }

    function running(values, n = values.length) {
        for (let i = 1; i < n; i++)
            values[i] += values[i - 1];
        return values;
    }

    const EXACT = 2 ** 52;
    const within = value => value >= 0 && value < EXACT ? value : 0;

    // Offsets are stored as differences from the end of the last call on the file.
    function offsets(d, has, stored) {
        const end = new Float64Array(d.files.length);
        d.offset = new Float64Array(d.total).fill(-1);
        for (let i = 0, k = 0; i < d.events; i++) {
            if (!has[i])
                continue;
            const file = d.file[i];
            const offset = end[file] + stored[k++];
            d.offset[i] = offset;
            end[file] = within(within(offset) + within(d.result[i]));
        }
    }

    function events(d, column) {
        const n = d.events;
        // columns have room for the sums behind the calls
        const plain = (name, type) => numbers(column(name), new type(d.total), n);

        d.left = d.left || null;
        const id = d.left ? running(numbers(column('id'), new Float64Array(n))) : null;
        d.idOf = i => id ? id[i] : i + 1;
        d.thread = plain('thread', Uint32Array);
        d.name = plain('name', Uint16Array);
        d.file = plain('file', Uint32Array);
        d.file2 = plain('file2', Uint32Array);
        d.errno = plain('errno', Uint16Array);
        d.bits = plain('bits', Uint8Array);
        d.fd = plain('fd', Uint32Array);
        d.peer = plain('peer', Uint32Array);
        d.flags = plain('flags', Float64Array);
        d.length = plain('length', Float64Array);
        d.start = running(signed(plain('start', Float64Array), n), n);
        d.ns = plain('ns', Float64Array);
        d.result = signed(plain('result', Float64Array), n);
        for (let i = 0; i < n; i++)
            if (d.length[i] > 0 && d.length[i] - 1 < EXACT)
                d.result[i] += d.length[i] - 1;

        const has = numbers(column('hasOffset'), new Uint8Array(n));
        let placed = 0;
        for (let i = 0; i < n; i++)
            placed += has[i] ? 1 : 0;
        offsets(d, has, signed(numbers(column('offset'), new Float64Array(placed))));

        d.server = plain('server', Uint32Array);
        let asked = 0;
        for (let i = 0; i < n; i++)
            asked += d.server[i] ? 1 : 0;
        const requests = numbers(column('requests'), new Float64Array(asked));
        const serverNs = numbers(column('serverNs'), new Float64Array(asked));
        const queueNs = numbers(column('queueNs'), new Float64Array(asked));
        d.requests = new Float64Array(d.total);
        d.serverNs = new Float64Array(d.total);
        d.queueNs = new Float64Array(d.total);
        for (let i = 0, k = 0; i < n; i++)
            if (d.server[i]) {
                d.requests[i] = requests[k];
                d.queueNs[i] = queueNs[k];
                d.serverNs[i] = serverNs[k++];
            }
    }

    // Sums of calls follow the calls; their number of calls is not 1.
    function sums(d, column) {
        const m = d.sums;
        const get = (name, sign) => {
            const values = numbers(column(name), new Float64Array(m));
            return sign ? signed(values) : values;
        };
        const put = (target, values) => target.set(values, d.events);

        put(d.thread, get('sumThread'));
        put(d.name, get('sumName'));
        put(d.file, get('sumFile'));
        put(d.server, get('sumServer'));
        put(d.start, get('sumStart', true));
        put(d.requests, get('sumRequests'));
        put(d.serverNs, get('sumServerNs'));
        put(d.queueNs, get('sumQueueNs'));
        put(d.bits, get('sumSide').map(side => side << 2));
        put(d.offset, get('sumOffset').map(offset => offset - 1));
        d.sumNs = get('sumNs');
        d.sumSpan = get('sumSpan');
        d.sumCalls = get('sumCalls');
        d.sumBytes = get('sumBytes');
        d.sumLongest = get('sumLongest');
        d.sumFailed = get('sumFailed');
        d.sumSize = get('sumSizeLog2');
        d.sumDuration = get('sumNsLog2');
        d.sumOffsetSpan = get('sumOffsetSpan');
    }

    // What is computed from the columns: kind, end, bytes, and duration without the marks of the format.
    function derive(d) {
        const kindOf = Uint8Array.from(d.names, name => name[1]);

        d.kind = new Uint8Array(d.total);
        d.end = new Float64Array(d.total);
        d.bytes = new Float64Array(d.total);
        d.returned = new Uint8Array(d.total).fill(1);
        for (let i = 0; i < d.total; i++) {
            d.kind[i] = kindOf[d.name[i]];
            if (i >= d.events) {
                const k = i - d.events;
                d.ns[i] = d.sumNs[k];
                d.end[i] = d.start[i] + d.sumSpan[k];
                d.bytes[i] = d.sumBytes[k];
                continue;
            }

            d.returned[i] = d.ns[i] ? 1 : 0;
            d.ns[i] = d.ns[i] ? d.ns[i] - 1 : 0;
            d.end[i] = d.start[i] + d.ns[i];
            d.bytes[i] = d.moves[d.kind[i]] && d.result[i] > 0 ? d.result[i] : 0;
        }

        d.sideOf = i => d.sides[d.bits[i] >> 2];
        d.isForwarded = i => d.bits[i] >> 2 === 1;
        d.callsOf = i => i < d.events ? 1 : d.sumCalls[i - d.events];
        d.failedOf = i => i < d.events ? d.bits[i] & 1 : d.sumFailed[i - d.events];
        d.first = Infinity;
        d.last = 0;
        for (let i = 0; i < d.total; i++) {
            d.first = Math.min(d.first, d.start[i]);
            d.last = Math.max(d.last, d.end[i]);
        }
        d.first = d.total ? Math.min(0, d.first) : 0;
        d.last = Math.max(d.last, d.first + 1000) + 1;
        d.kindNumber = Object.fromEntries(d.kinds.map((kind, number) => [kind, number]));
    }

    async function read(text) {
        const block = await inflate(fromBase64(text.trim()));
        const jsonLength = new DataView(block.buffer).getUint32(0, true);
        const d = JSON.parse(new TextDecoder().decode(block.subarray(4, 4 + jsonLength)));
        const where = new Map();
        let at = 4 + jsonLength;

        for (const [name, length] of d.columns) {
            where.set(name, block.subarray(at, at + length));
            at += length;
        }

        d.total = d.events + d.sums;
        const column = name => where.get(name);
        events(d, column);
        sums(d, column);
        derive(d);
        return d;
    }

    return { read };
})();
