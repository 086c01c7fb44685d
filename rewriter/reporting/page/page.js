"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const make = (name, attributes, parent) => {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (parent) parent.appendChild(element);
    return element;
  };
  const HEAD = 22, STUB = 6;

  // Lays out one level; a box is laid out first and is one node of the level around it.
  function layout(nodes, edges) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ nodesep: 14, ranksep: 26, marginx: 8, marginy: 8 });
    graph.setDefaultEdgeLabel(() => ({}));
    const inner = new Map();
    for (const node of nodes) {
      let width = Math.max(40, 7.2 * node.label.length + 16), height = 26;
      if (node.nodes && node.nodes.length) {
        const level = layout(node.nodes, node.edges);
        inner.set(node.id, level);
        width = Math.max(width, level.width);
        height = level.height + HEAD;
      }
      graph.setNode(String(node.id), { width, height });
    }
    for (const [from, to] of edges) graph.setEdge(String(from), String(to));
    dagre.layout(graph);
    for (const edge of graph.edges()) route(graph, edge);
    const size = graph.graph();
    const big = (value) => (Number.isFinite(value) ? value : 40);
    const width = withBends(graph, big(size.width));
    return { graph, inner, nodes, edges, width, height: big(size.height) };
  }

  // An edge leaves a node straight down and enters one from above, past its whole row: dagre's
  // lines aim at the middle of a node and may run behind those that stand beside it.
  function route(graph, edge) {
    const [from, to] = [graph.node(edge.v), graph.node(edge.w)];
    const points = graph.edge(edge).points.slice(1, -1);
    const end = (node, near, side) => {
      const half = Math.max(0, node.width / 2 - 10);
      const x = Math.min(node.x + half, Math.max(node.x - half, near.x));
      const row = graph.nodes().map((id) => graph.node(id)).filter((one) => Math.abs(one.y - node.y) < 1);
      const tallest = Math.max(...row.map((one) => one.height));
      return [node.height / 2, tallest / 2 + STUB].map((away) => ({ x, y: node.y + side * away }));
    };
    const [first, below] = end(from, points[0], 1), [last, above] = end(to, points[points.length - 1], -1);
    graph.edge(edge).points = [first, below, ...points, above, last];
  }

  // dagre's width is that of the nodes: an edge may go around them, left of 0 too.
  function withBends(graph, width) {
    const bends = graph.edges().flatMap((edge) => graph.edge(edge).points);
    const xs = bends.map((point) => point.x);
    const shift = Math.max(0, 8 - Math.min(8, ...xs));
    const right = Math.max(width, 8 + Math.max(0, ...xs));
    if (shift) for (const one of [...bends, ...graph.nodes().map((id) => graph.node(id))]) one.x += shift;
    return right + shift;
  }

  function draw(level, parent) {
    for (const [from, to, title] of level.edges) {
      const points = level.graph.edge(String(from), String(to)).points;
      const path = points.map((p, i) => `${i ? "L" : "M"}${p.x.toFixed(1)} ${p.y.toFixed(1)}`);
      const edge = make("path", { class: "edge", d: path.join(""), "marker-end": "url(#arrow)" }, parent);
      make("title", {}, edge).textContent = title;
    }
    for (const node of level.nodes) {
      const at = level.graph.node(String(node.id));
      const x = at.x - at.width / 2, y = at.y - at.height / 2;
      const inner = level.inner.get(node.id);
      const kind = [node.kind, inner ? "box" : "", node.around ? "around" : ""].join(" ").trim();
      const group = make("g", { class: `node ${kind}`, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` }, parent);
      make("title", {}, group).textContent = node.title;
      make("rect", { width: at.width.toFixed(1), height: at.height.toFixed(1) }, group);
      const text = make("text", inner ? { x: 8, y: 16 } : { x: at.width / 2, y: 17, "text-anchor": "middle" }, group);
      text.textContent = node.label;
      if (inner) draw(inner, make("g", { transform: `translate(0 ${HEAD})` }, group));
    }
  }

  function picture(pane, region) {
    const level = layout(region.nodes, region.edges);
    const svg = make("svg", { class: "graph", role: "img", width: Math.ceil(level.width), height: Math.ceil(level.height),
      viewBox: `0 0 ${Math.ceil(level.width)} ${Math.ceil(level.height)}` });
    // As a whole, unless it would be too small to read.
    svg.style.maxHeight = `max(32.5rem, ${Math.ceil(0.7 * level.height)}px)`;
    svg.style.minWidth = `${Math.ceil(0.6 * level.width)}px`;
    make("title", {}, svg).textContent = pane.getAttribute("aria-label");
    const marker = make("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, make("defs", {}, svg));
    make("path", { d: "M0 0L8 4L0 8z" }, marker);
    draw(level, svg);
    pane.replaceChildren(svg);
  }

  const pictures = JSON.parse(document.getElementById("pictures").textContent);
  for (const pane of document.querySelectorAll(".pane")) {
    const region = pictures[pane.dataset.map][pane.dataset.side];
    if (region.nodes.length) {
      picture(pane, region);
      const rest = document.createElement("p");
      rest.className = "meta";
      const gone = region.nodes.every((node) => node.around || node.kind === "value");
      const more = region.hidden > 0 ? `… ${region.hidden} more node${region.hidden > 1 ? "s" : ""}, constants included` : "";
      rest.textContent = [gone ? "nothing is left of it" : "", more].filter(Boolean).join("; ");
      pane.parentElement.appendChild(rest);
      const zoom = document.createElement("button");
      zoom.type = "button";
      const name = (text) => {
        zoom.textContent = text;
        zoom.setAttribute("aria-label", `${text}: ${pane.getAttribute("aria-label")}`);
      };
      name("full size");
      zoom.addEventListener("click", () => name(pane.classList.toggle("full") ? "fit" : "full size"));
      pane.previousElementSibling.append(" ", zoom);
    } else pane.textContent = "nothing is left of it";
  }
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(button.dataset.copy); button.textContent = "copied"; }
      catch { button.textContent = "select and copy"; }
    });
  }
})();
