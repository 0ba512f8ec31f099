// The functions of mini_vllm/light/numpy_ops.py, for a page: an array is {data: Float32Array, rows, cols}.
// Python calls them through tools/book/ops_of_a_page.py; a list of Python arrives as a proxy.
const list = (x) => x?.toJs?.() ?? x;
const make = (rows, cols) => ({ data: new Float32Array(rows * cols), rows, cols });
const each = (x, change) => ({ data: x.data.map(change), rows: x.rows, cols: x.cols });
const row = (x, i) => x.data.subarray(i * x.cols, (i + 1) * x.cols);

export const zeros = make;

export function load(raw, dtype, shape) {
  if (dtype !== "BF16") throw new Error(`The page reads BF16, not ${dtype}`);
  const [bytes, [rows, cols]] = [list(raw), list(shape)];
  const data = new Float32Array(Uint32Array.from(new Uint16Array(bytes.slice().buffer), (x) => x << 16).buffer);
  return cols === undefined ? { data, rows: 1, cols: rows } : { data, rows, cols };
}

export function take(x, rows) {
  const ids = list(rows);
  const out = make(ids.length, x.cols);
  ids.forEach((id, i) => row(out, i).set(row(x, id)));
  return out;
}

export function write(x, rows, fresh) {
  list(rows).forEach((id, i) => row(x, id).set(row(fresh, i)));
}

export const add = (x, y) => each(x, (value, i) => value + y.data[i]);
export const silu_mul = (gate, up) => each(gate, (value, i) => (value / (1 + Math.exp(-value))) * up.data[i]);

function dot(x, a, y, b, n) {
  let [s0, s1, s2, s3] = [0, 0, 0, 0]; // four sums, which do not wait for each other
  for (let k = 0; k < n; k += 4) {
    s0 += x[a + k] * y[b + k];
    s1 += x[a + k + 1] * y[b + k + 1];
    s2 += x[a + k + 2] * y[b + k + 2];
    s3 += x[a + k + 3] * y[b + k + 3];
  }
  return s0 + s1 + s2 + s3;
}

export function linear(x, weight) {
  const out = make(x.rows, weight.rows);
  for (let j = 0; j < weight.rows; j++)
    for (let i = 0; i < x.rows; i++)
      out.data[i * out.cols + j] = dot(x.data, i * x.cols, weight.data, j * x.cols, x.cols);
  return out;
}

export function rms_norm(x, weight, eps) {
  const out = make(x.rows, x.cols);
  const n = weight.data.length; // of the row, or of a head in it
  for (let start = 0; start < x.data.length; start += n) {
    const scale = 1 / Math.sqrt(dot(x.data, start, x.data, start, n) / n + eps);
    for (let i = 0; i < n; i++) out.data[start + i] = x.data[start + i] * scale * weight.data[i];
  }
  return out;
}

export function rotation(positions, dim, theta) {
  const [half, at] = [dim / 2, list(positions)];
  const [cos, sin] = [make(at.length, half), make(at.length, half)];
  at.forEach((position, i) => {
    for (let c = 0; c < half; c++) {
      const angle = Math.fround(position * Math.fround(1 / Math.fround(theta ** ((2 * c) / dim))));
      cos.data[i * half + c] = Math.cos(angle);
      sin.data[i * half + c] = Math.sin(angle);
    }
  });
  return { cos, sin };
}

export function rotate(x, { cos, sin }) {
  const [half, out] = [cos.cols, make(x.rows, x.cols)];
  for (let i = 0; i < x.rows; i++)
    for (let head = i * x.cols; head < (i + 1) * x.cols; head += 2 * half)
      for (let c = 0; c < half; c++) {
        const [a, b] = [x.data[head + c], x.data[head + half + c]];
        const [C, S] = [cos.data[i * half + c], sin.data[i * half + c]];
        out.data[head + c] = a * C - b * S;
        out.data[head + half + c] = b * C + a * S;
      }
  return out;
}

export function attend(query, keys, values, spans, blockSize, dim) {
  const out = make(query.rows, query.cols);
  const numHeads = query.cols / dim;
  const group = numHeads / (keys.cols / dim);
  let i = 0; // the row of the query
  for (const [start, n, table] of list(spans))
    for (let end = start + 1; end <= start + n; end++, i++)
      for (let head = 0; head < numHeads; head++) {
        const [q, kv] = [i * query.cols + head * dim, Math.floor(head / group) * dim];
        const place = (p) => (table[Math.floor(p / blockSize)] * blockSize + (p % blockSize)) * keys.cols + kv;
        const scores = new Float32Array(end).map((_, p) => dot(query.data, q, keys.data, place(p), dim) / dim ** 0.5);
        const peak = scores.reduce((a, b) => Math.max(a, b));
        const weights = scores.map((score) => Math.exp(score - peak));
        const total = weights.reduce((a, b) => a + b);
        for (let p = 0; p < end; p++)
          for (let c = 0, v = place(p); c < dim; c++) out.data[q + c] += (weights[p] / total) * values.data[v + c];
      }
  return out;
}

export const tolist = (x) => Array.from({ length: x.rows }, (_, i) => Array.from(row(x, i)));
