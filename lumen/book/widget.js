(function (root) {
  "use strict";
  var spec = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  var chosen = spec.controls.map(function (c) { return c.start; });

  function make(tag, attributes, parent, text) {
    var svg = /^(svg|g|rect|path|circle|line|text)$/.test(tag);
    var node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    Object.keys(attributes || {}).forEach(function (k) { node.setAttribute(k, attributes[k]); });
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  }
  function colour(name) { return "var(--" + name + ")"; }
  function fixed(value, digits) { return value.toFixed(digits).replace("-", "\u2212"); }

  var still = root.querySelector(".lumen-widget-still");
  if (still) still.remove();
  var controls = make("div", { "class": "lw-controls" }, root);
  var panels = make("div", { "class": "lw-panels" }, root);
  var words = make("p", { "class": "lw-text", "aria-live": "polite" }, root);

  spec.controls.forEach(function (control, k) {
    var id = root.id + "-" + control.name;
    if (control.kind === "slider") {
      var box = make("div", { "class": "lw-control" }, controls);
      var line = make("div", { "class": "lw-label" }, box);
      make("label", { "for": id }, line, control.label);
      var value = make("span", { "class": "lw-value" }, line);
      var range = make("input", { type: "range", id: id, min: 0, max: control.values.length - 1, step: 1 }, box);
      range.value = control.start;
      var show = function () {
        chosen[k] = Number(range.value);
        value.textContent = control.values[chosen[k]];
        range.setAttribute("aria-valuetext", control.values[chosen[k]]);
      };
      range.addEventListener("input", function () { show(); draw(); });
      show();
    } else {
      var group = make("fieldset", { "class": "lw-control" }, controls);
      make("legend", { "class": "lw-label" }, group, control.label);
      var options = make("div", { "class": "lw-options" }, group);
      control.values.forEach(function (name, j) {
        var option = make("label", { "class": "lw-option" }, options);
        var radio = make("input", { type: "radio", name: id }, option);
        radio.checked = j === control.start;
        make("span", {}, option, name);
        radio.addEventListener("change", function () { chosen[k] = j; draw(); });
      });
    }
  });

  var boxes = spec.panels.filter(function (p) { return p.kind !== "text"; }).map(function (panel) {
    var box = make("div", { "class": "lw-panel" }, panels);
    make("p", { "class": "lw-title" }, box, panel.title);
    return { panel: panel, box: box, plot: make("div", {}, box) };
  });

  function canvas(plot, height, name) {
    plot.textContent = "";
    var width = Math.max(220, plot.clientWidth || 300);
    return make("svg", { viewBox: "0 0 " + width + " " + height, width: width, height: height, role: "img", "aria-label": name }, plot);
  }

  var render = {
    bars: function (panel, data, plot) {
      var svg = canvas(plot, 190, panel.title), width = svg.viewBox.baseVal.width, base = 166, top = 18;
      var step = width / data.length, span = panel.high - panel.low;
      data.forEach(function (value, j) {
        var height = Math.max(0, Math.min(1, (value - panel.low) / span)) * (base - top);
        make("rect", { x: j * step + step * 0.14, width: step * 0.72, y: base - height, height: height, rx: 2, fill: colour(panel.color) }, svg);
        make("text", { x: (j + 0.5) * step, y: base - height - 5, "text-anchor": "middle" }, svg, fixed(value, panel.digits));
        make("text", { x: (j + 0.5) * step, y: base + 17, "text-anchor": "middle", "class": "quiet" }, svg, panel.labels[j]);
      });
      make("line", { x1: 0, x2: width, y1: base + 0.5, y2: base + 0.5, stroke: colour("line") }, svg);
    },
    lines: function (panel, data, plot) {
      var svg = canvas(plot, 190, panel.title), width = svg.viewBox.baseVal.width;
      var left = 34, right = width - 12, base = 152, top = 14;
      var warp = panel.log_x ? Math.log2 : function (x) { return x; };
      var first = warp(panel.x[0]), last = warp(panel.x[panel.x.length - 1]);
      function px(x) { return left + (warp(x) - first) / (last - first) * (right - left); }
      function py(y) { return base - Math.max(0, Math.min(1, (y - panel.low) / (panel.high - panel.low))) * (base - top); }
      [panel.low, (panel.low + panel.high) / 2, panel.high].forEach(function (y) {
        make("line", { x1: left, x2: right, y1: py(y), y2: py(y), stroke: colour("line") }, svg);
        make("text", { x: left - 6, y: py(y) + 4, "text-anchor": "end", "class": "quiet" }, svg, String(Number(y.toPrecision(3))));
      });
      [panel.x[0], panel.x[Math.floor(panel.x.length / 2)], panel.x[panel.x.length - 1]].forEach(function (x, j) {
        make("text", { x: px(x), y: base + 17, "text-anchor": ["start", "middle", "end"][j], "class": "quiet" }, svg, String(x));
      });
      make("text", { x: (left + right) / 2, y: base + 34, "text-anchor": "middle", "class": "quiet" }, svg, panel.x_label);
      data.curves.forEach(function (curve, j) {
        var d = curve.map(function (y, i) { return (i ? "L" : "M") + px(panel.x[i]).toFixed(1) + " " + py(y).toFixed(1); }).join("");
        make("path", { d: d, fill: "none", stroke: colour(panel.colors[j]), "stroke-width": 2, "stroke-linejoin": "round" }, svg);
        if (data.mark === null) return;
        var i = panel.x.indexOf(data.mark);
        make("circle", { cx: px(data.mark), cy: py(curve[i]), r: 5, fill: colour(panel.colors[j]), stroke: colour("paper"), "stroke-width": 2 }, svg);
      });
      if (data.mark !== null) make("line", { x1: px(data.mark), x2: px(data.mark), y1: top, y2: base, stroke: colour("quiet"), "stroke-dasharray": "2 4" }, svg);
      var legend = make("div", { "class": "lw-legend" }, plot);
      panel.curves.forEach(function (name, j) {
        var item = make("span", {}, legend);
        make("i", { style: "background:" + colour(panel.colors[j]) }, item);
        var i = data.mark === null ? -1 : panel.x.indexOf(data.mark);
        item.appendChild(document.createTextNode(name + (i < 0 ? "" : " " + fixed(data.curves[j][i], panel.digits))));
      });
    },
    heat: function (panel, data, plot) {
      var width = Math.max(220, plot.clientWidth || 300), left = 12 + 8 * Math.max.apply(null, panel.rows.map(function (r) { return r.length; }));
      var step = Math.min(64, (width - left) / panel.columns.length), tall = Math.min(step, 40);
      var svg = canvas(plot, 24 + tall * data.length, panel.title);
      panel.columns.forEach(function (name, j) { make("text", { x: left + (j + 0.5) * step, y: 14, "text-anchor": "middle", "class": "quiet" }, svg, name); });
      data.forEach(function (row, i) {
        make("text", { x: left - 8, y: 22 + (i + 0.5) * tall + 4, "text-anchor": "end", "class": "quiet" }, svg, panel.rows[i]);
        row.forEach(function (value, j) {
          var share = value === null ? 0 : Math.max(0, Math.min(1, (value - panel.low) / (panel.high - panel.low)));
          var fill = value === null ? colour("wash") : "color-mix(in srgb," + colour("heat") + " " + Math.round(100 * share) + "%," + colour("paper") + ")";
          make("rect", { x: left + j * step + 1, y: 22 + i * tall + 1, width: step - 2, height: tall - 2, rx: 2, fill: fill, stroke: colour("line") }, svg);
          if (value !== null) make("text", { x: left + (j + 0.5) * step, y: 22 + (i + 0.5) * tall + 4, "text-anchor": "middle" }, svg, fixed(value, panel.digits));
        });
      });
    },
    plane: function (panel, data, plot) {
      var side = Math.max(220, Math.min(320, plot.clientWidth || 300)), half = side / 2 - 24;
      var svg = canvas(plot, side, panel.title), left = svg.viewBox.baseVal.width / 2;
      function px(p) { return left + p[0] / panel.reach * half; }
      function py(p) { return side / 2 - p[1] / panel.reach * half; }
      function line(a, b, name, width) {
        return make("line", { x1: px(a), y1: py(a), x2: px(b), y2: py(b), stroke: colour(name), "stroke-width": width }, svg);
      }
      line([-panel.reach, 0], [panel.reach, 0], "line", 1);
      line([0, -panel.reach], [0, panel.reach], "line", 1);
      if (panel.outline) {
        var d = panel.points.map(function (p, j) { return (j ? "L" : "M") + px(p) + " " + py(p); }).join("") + "Z";
        make("path", { d: d, fill: colour("wash"), stroke: colour("line") }, svg);
      }
      panel.points.forEach(function (p, j) {
        make("circle", { cx: px(p), cy: py(p), r: 3 + 15 * Math.sqrt(data.sizes[j]), fill: colour("orange"), "fill-opacity": 0.35, stroke: colour("orange") }, svg);
        var out = Math.hypot(p[0], p[1]) || 1, far = 1 + (24 / half) * panel.reach / out;
        make("text", { x: px([p[0] * far, 0]), y: py([0, p[1] * far]) + 4, "text-anchor": "middle" }, svg, panel.labels[j]);
      });
      if (data.arrow) {
        var turn = Math.atan2(data.arrow[1], data.arrow[0]), barb = 0.07 * panel.reach;
        line([0, 0], data.arrow, "blue", 2.5);
        [2.6, -2.6].forEach(function (bend) {
          line(data.arrow, [data.arrow[0] + barb * Math.cos(turn + bend), data.arrow[1] + barb * Math.sin(turn + bend)], "blue", 2.5);
        });
      }
      if (data.dot) make("circle", { cx: px(data.dot), cy: py(data.dot), r: 6, fill: colour("blue"), stroke: colour("paper"), "stroke-width": 2 }, svg);
    },
    grid: function (panel, data, plot) {
      var width = Math.max(220, plot.clientWidth || 300), step = Math.min(28, width / data[0].length);
      var svg = canvas(plot, step * data.length, panel.title);
      data.forEach(function (row, i) {
        row.forEach(function (state, j) {
          make("rect", { x: j * step + 1, y: i * step + 1, width: step - 2, height: step - 2, rx: 2, fill: colour(panel.colors[state]), stroke: colour("line") }, svg);
        });
      });
      var legend = make("div", { "class": "lw-legend" }, plot);
      panel.states.forEach(function (name, j) {
        var item = make("span", {}, legend);
        make("i", { style: "background:" + colour(panel.colors[j]) + ";border:1px solid " + colour("line") }, item);
        item.appendChild(document.createTextNode(name));
      });
    },
  };

  function draw() {
    var data = spec.settings[chosen.join(",")];
    boxes.forEach(function (b) { render[b.panel.kind](b.panel, data[b.panel.name], b.plot); });
    words.textContent = spec.panels.filter(function (p) { return p.kind === "text"; }).map(function (p) { return data[p.name]; }).join(" ");
  }
  draw();
  var width = root.clientWidth;
  new ResizeObserver(function () { if (root.clientWidth !== width) { width = root.clientWidth; draw(); } }).observe(root);
})(document.currentScript.parentElement);
