(function (root) {
  "use strict";
  var spec = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  var NUMBERS = [
    ["d", "width d", 64, 64], ["L", "blocks L", 1, 1], ["h", "heads", 1, 1],
    ["kv", "heads of keys and values", 1, 1], ["ff", "width inside the MLP", 64, 64],
    ["V", "vocabulary V", 1, 1], ["P", "rows of positions", 0, 1], ["n", "context n, tokens", 0, 1],
  ];
  var LABELS = { kind: "kind", tied: "head of the vocabulary", mlp: "MLP", norm: "norm", offsets: "offsets" };
  var DECODER_ONLY = ["kv", "tied", "mlp", "norm", "offsets"];
  var LARGEST = 1e9;

  function make(tag, attributes, parent, text) {
    var svg = /^(svg|rect|text)$/.test(tag);
    var node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    Object.keys(attributes || {}).forEach(function (k) { node.setAttribute(k, attributes[k]); });
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  }
  function grouped(whole) { return whole.toString().replace(/\B(?=(\d{3})+$)/g, ","); }
  function scaled(whole, step, units) {
    var value = Number(whole), unit = 0;
    while (value >= step && unit < units.length - 1) { value /= step; unit += 1; }
    if (value >= 1e6) return Number(whole).toExponential(2).replace("e+", " × 10^") + units[0];
    return Number(value.toPrecision(3)) + units[unit];
  }
  function short(whole) { return scaled(whole, 1000, ["", " thousand", " million", " billion", " trillion"]); }
  function bytes(whole) { return scaled(whole, 1024, [" bytes", " KiB", " MiB", " GiB", " TiB"]); }
  function upwards(a, b) { return (a + b - 1n) / b; }

  /* ---- the formulas: integers in, integers out, as in lumen.count */
  function count(x) {
    var encoder = x.kind === 2n, gated = x.mlp === 1n && !encoder, offsets = x.offsets === 0n || encoder;
    var d = x.d, narrow = x.kv * (d / x.h), norm = x.norm === 1n && !encoder ? d : 2n * d;
    var projections = 2n * d * (d + narrow), mlp = (gated ? 3n : 2n) * d * x.ff, block = projections + mlp;
    var attention = projections + (offsets ? 2n * (d + narrow) : 0n);
    var dense = mlp + (offsets && !gated ? x.ff + d : 0n);
    var table = x.V * d, rows = x.P * d + (encoder ? 2n * d : 0n);
    var head = !encoder && x.tied === 1n ? table : 0n;
    var ends = encoder ? 2n * d + d * d + d : x.kind === 0n ? norm : 0n;
    var parts = { tables: table + rows + head, attention: x.L * attention, mlp: x.L * dense, rest: 2n * x.L * norm + ends };
    var weights = parts.tables + parts.attention + parts.mlp + parts.rest;
    var multiply = x.L * block + (encoder ? 0n : table);
    var pairs = 4n * d * x.L * x.n, token = encoder ? 0n : 4n * x.L * narrow;
    return {
      parts: parts, weights: weights, rule: 12n * x.L * d * d, bytes: 2n * weights, multiply: multiply,
      pairs: pairs, forward: 2n * multiply + pairs, training: 3n * (2n * multiply + pairs),
      token: token, cache: token * x.n,
      projections: upwards(projections, 2n * d), mlp: upwards(mlp, 2n * d), block: upwards(block, 2n * d), causal: upwards(block, d),
    };
  }

  function flaw(x) {
    var wrong = NUMBERS.filter(function (field) {
      var value = x[field[0]], least = field[2] === 0 ? 0 : 1;
      return !(Number.isInteger(value) && value >= least && value <= LARGEST);
    })[0];
    if (wrong) return [wrong[0], wrong[1] + " wants a whole number from " + (wrong[2] === 0 ? 0 : 1) + " to a billion"];
    if (x.d % x.h) return ["h", "the heads must divide the width: " + x.h + " and " + x.d + " do not fit"];
    if (x.kind !== 2 && x.h % x.kv) return ["kv", "the heads of keys and values must divide the heads: " + x.kv + " and " + x.h + " do not fit"];
    return null;
  }

  /* ---- the controls */
  root.querySelector(".lumen-widget-still").remove();
  var fields = {}, radios = {}, presets = {};
  function pills(name, label, values, parent, chosen) {
    var group = make("fieldset", { "class": "lw-control" }, parent), options;
    make("legend", { "class": "lw-label" }, group, label);
    options = make("div", { "class": "lw-options" }, group);
    return values.map(function (value, j) {
      var option = make("label", { "class": "lw-option" }, options);
      var radio = make("input", { type: "radio", name: root.id + "-" + name, value: j }, option);
      make("span", {}, option, value);
      radio.addEventListener("change", function () { chosen(value); });
      return radio;
    });
  }
  var models = Object.keys(spec.models);
  pills("model", "a model to start from", models, make("div", { "class": "lw-controls lc-models" }, root), load)
    .forEach(function (radio, j) { presets[models[j]] = radio; });
  var grid = make("div", { "class": "lc-fields" }, root);
  NUMBERS.forEach(function (field) {
    var id = root.id + "-" + field[0], box = make("div", { "class": "lc-field" }, grid);
    make("label", { "for": id }, box, field[1]);
    fields[field[0]] = make("input", { type: "number", id: id, min: field[2], step: field[3], inputmode: "numeric", "data-input": field[0] }, box);
    fields[field[0]].addEventListener("input", function () { if (field[0] !== "n") own(); draw(); });
  });
  var choices = make("div", { "class": "lc-choices" }, root);
  Object.keys(spec.choices).forEach(function (name) {
    radios[name] = pills(name, LABELS[name], spec.choices[name], choices, function () { own(); draw(); });
  });
  var panels = make("div", { "class": "lw-panels" }, root);
  panels.style.display = "block";
  var words = make("p", { "class": "lw-text", "aria-live": "polite" }, root);

  function own() { models.forEach(function (name) { presets[name].checked = false; }); }
  function load(name) {
    presets[name].checked = true;
    Object.keys(spec.models[name]).forEach(function (key) {
      if (key in fields) fields[key].value = spec.models[name][key];
      else radios[key][spec.models[name][key]].checked = true;
    });
    draw();
  }
  function read() {
    var x = {};
    NUMBERS.forEach(function (field) { x[field[0]] = fields[field[0]].value === "" ? NaN : Number(fields[field[0]].value); });
    Object.keys(radios).forEach(function (name) { x[name] = radios[name].findIndex(function (radio) { return radio.checked; }); });
    if (x.kind === 2) x.kv = x.h;
    return x;
  }

  /* ---- the picture */
  function bar(parts, total) {
    var names = { tables: ["tables", "orange"], attention: ["attention", "blue"], mlp: ["MLP", "teal"], rest: ["norms, ends", "purple"] };
    var box = make("div", { "class": "lc-bar" }, panels), width = Math.max(220, panels.clientWidth || 300), at = 0;
    make("p", { "class": "lw-title" }, box, "where the weights are");
    var shares = Object.keys(names).map(function (key) { return Number(parts[key]) / Number(total); });
    var said = Object.keys(names).map(function (key, j) { return names[key][0] + " " + (100 * shares[j]).toFixed(1) + " %"; });
    var svg = make("svg", { viewBox: "0 0 " + width + " 26", width: width, height: 26, role: "img", "aria-label": "Share of the weights: " + said.join(", ") }, box);
    Object.keys(names).forEach(function (key, j) {
      make("rect", { x: at, y: 0, width: Math.max(0, shares[j] * width - 1), height: 26, fill: "var(--" + names[key][1] + ")" }, svg);
      at += shares[j] * width;
    });
    var legend = make("div", { "class": "lw-legend" }, box);
    said.forEach(function (text, j) {
      var item = make("span", {}, legend);
      make("i", { style: "background:var(--" + names[Object.keys(names)[j]][1] + ")" }, item);
      item.appendChild(document.createTextNode(text));
    });
  }

  function draw() {
    var x = read(), wrong = flaw(x), encoder = x.kind === 2;
    NUMBERS.forEach(function (field) { fields[field[0]].setAttribute("aria-invalid", Boolean(wrong && wrong[0] === field[0])); });
    DECODER_ONLY.forEach(function (name) {
      (name in fields ? [fields[name]] : radios[name]).forEach(function (node) { node.disabled = encoder; });
    });
    panels.textContent = "";
    if (wrong) { words.textContent = "Not yet: " + wrong[1] + "."; return; }
    Object.keys(x).forEach(function (key) { x[key] = BigInt(x[key]); });
    var y = count(x), list;
    bar(y.parts, y.weights);
    list = make("dl", { "class": "lc-results" }, panels);
    function row(name, label, value, how) {
      var box = make("div", { "class": "lc-result" }, list);
      make("dt", {}, box, label);
      make("dd", { "data-output": name }, box, grouped(value));
      make("dd", { "class": "lc-how" }, box, how);
    }
    var ratio = (Number(y.weights) / Number(y.rule)).toFixed(3);
    row("weights", "weights P", y.weights, short(y.weights) + "; " + ratio + " times the rule below");
    row("rule", "the rule 12 L d²", y.rule, "blocks only, MLP of 4d, nothing shared");
    row("bytes", "bytes of the weights", y.bytes, bytes(y.bytes) + ", 2 bytes a weight");
    row("multiply", "weights N that multiply", y.multiply, encoder ? "matrices of the blocks" : "matrices of the blocks, and the head");
    row("forward", "FLOPs a token, forward", y.forward, "2N + 4ndL; scores and mixing are " + (100 * Number(y.pairs) / Number(y.forward)).toFixed(1) + " % of it");
    row("training", "FLOPs a token, training", y.training, "three times forward");
    if (!encoder) {
      row("token", "bytes of cache, a token", y.token, bytes(y.token) + ", 2 bytes a number");
      row("cache", "bytes of cache, n tokens", y.cache, bytes(y.cache) + ", one sequence");
    }
    row("projections", "n where scores cost the projections", y.projections, "scoring and mixing, 4nd a block: " + (Number(y.projections) / Number(x.d)).toFixed(2) + " d");
    row("mlp", "n where they cost the MLP", y.mlp, (Number(y.mlp) / Number(x.d)).toFixed(2) + " d");
    row("block", "n where they cost projections and MLP", y.block, (Number(y.block) / Number(x.d)).toFixed(2) + " d");
    if (!encoder) row("causal", "the same, on average over a causal text", y.causal, (Number(y.causal) / Number(x.d)).toFixed(2) + " d");
    var name = models.filter(function (model) { return presets[model].checked; })[0] || "Your model";
    words.textContent = name + ": " + short(y.weights) + " weights, " + bytes(y.bytes) + " to hold them, " +
      short(y.forward) + " FLOPs for a token that reads " + grouped(x.n) + (encoder ? "." : ", and a cache of " + bytes(y.cache) + ".") +
      (x.P && x.n > x.P ? " But it has rows for " + grouped(x.P) + " positions only, and cannot read so many." : "");
  }
  fields.n.value = spec.context;
  load(spec.start);
  var width = root.clientWidth;
  new ResizeObserver(function () { if (root.clientWidth !== width) { width = root.clientWidth; draw(); } }).observe(root);
})(document.currentScript.parentElement);
