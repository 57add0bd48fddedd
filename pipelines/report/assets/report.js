// The browser of samples: filters, search, keys. Everything a model wrote reaches the page as text, never as HTML.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const source = at("data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const ROWS = 150; // rows of the list that are made at once
  const HEAD = 3000, TAIL = 1500; // characters of a long text that are shown at first
  const SET = 60000; // longer texts are shown without setting their formulas
  const SIGNS = { correct: "✓", wrong: "✗", unparsed: "?", timeout: "⧖", error: "!", gained: "▲", lost: "▼", same: "＝" };

  const make = (name, className, ...children) => {
    const node = document.createElement(name);
    if (className) node.className = className;
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };
  const verdict = (name) => make("span", `pill ${{ correct: "good", gained: "good", wrong: "bad", lost: "bad", same: "" }[name] ?? "odd"}`, name);

  const items = data.items.map(([problem, group, label, tags, parts], index) => {
    const [id, text, gold, subject, level] = data.problems[problem];
    return { index, problem, group, label, id, text, gold, subject, level, tags: tags.map((tag) => data.tags[tag]), parts, hay: null,
      link: `${data.groups.length > 1 ? `${group}/` : ""}${id}${label === "" ? "" : `/${label}`}` };
  });
  const hay = (item) => (item.hay ??= [item.id, item.text, item.gold, ...item.parts.flatMap((part) => [part[2], part[3], part[5]])].join("\n").toLowerCase());

  const list = at("list"), detail = at("detail"), count = at("count"), search = at("search"), chips = at("chips");
  const selects = [...document.querySelectorAll("select[data-field]")];
  let tag = "", found = [], current = null, asSource = false, made = 0, linking = 0;

  const matches = (item, words) =>
    (!tag || item.tags.includes(tag)) &&
    selects.every((select) => select.value === "" || String(item[select.dataset.field]) === select.value) &&
    words.every((word) => hay(item).includes(word));

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = items.filter((item) => matches(item, words));
    count.textContent = `${found.length.toLocaleString("en")} of ${items.length.toLocaleString("en")} ${data.noun}`;
    list.replaceChildren();
    list.scrollTop = 0;
    made = 0;
    more();
    if (!found.includes(current)) current = null;
    if (!current && found.length && wide()) show(found[0], false);
    else if (!current) detail.replaceChildren(make("p", "count", found.length ? "Choose one from the list." : "Nothing fits these filters."));
    else mark();
  };
  const wide = () => matchMedia("(min-width: 821px)").matches;

  const more = () => {
    list.querySelector(".more")?.remove();
    for (const item of found.slice(made, made + ROWS)) list.append(line(item));
    made = Math.min(found.length, made + ROWS);
    if (made < found.length) {
      const button = make("button", "more", `show more (${(found.length - made).toLocaleString("en")} left)`);
      button.type = "button";
      button.addEventListener("click", () => { more(); list.children[made - 1]?.scrollIntoView({ block: "nearest" }); });
      list.append(button);
    }
  };
  const line = (item) => {
    const name = item.tags[0], sign = make("span", `sign t-${name}`, SIGNS[name] ?? "·");
    sign.title = item.tags.join(", ");
    sign.setAttribute("role", "img");
    sign.setAttribute("aria-label", item.tags.join(", "));
    const facts = [item.subject, item.level === null ? null : `level ${item.level}`, item.label === "" ? null : `${data.label} ${item.label}`, ...item.tags.slice(1)];
    const button = make("button", "", sign, make("span", "what", texts.flat(item.text) || item.id),
      make("span", "meta", facts.filter((fact) => fact !== null && fact !== undefined).join(" · ")));
    button.type = "button";
    button.dataset.index = item.index;
    return button;
  };
  const rowOf = (item) => list.querySelector(`[data-index="${item.index}"]`);
  const mark = () => {
    list.querySelector("[aria-current]")?.removeAttribute("aria-current");
    if (current) rowOf(current)?.setAttribute("aria-current", "true");
  };

  const said = (text, className, cut, omitted) => {
    const box = make("div", `said ${className}${asSource ? " source" : ""}`);
    box.dir = "auto";
    const write = (place, piece) => (asSource || piece.length > SET ? place.append(piece) : texts.fill(place, piece));
    const whole = () => {
      box.replaceChildren();
      if (!omitted) return write(box, text);
      write(box, text.slice(0, cut));
      box.append(make("span", "gap", `${omitted.toLocaleString("en")} characters are left out of this file`));
      return write(box, text.slice(cut));
    };
    if (text.length <= 1.3 * (HEAD + TAIL)) whole();
    else {
      const button = make("button", "gap", `show all ${(text.length + omitted).toLocaleString("en")} characters`);
      button.type = "button";
      button.addEventListener("click", () => { whole(); box.tabIndex = -1; box.focus({ preventScroll: true }); });
      write(box, text.slice(0, HEAD));
      box.append(make("span", "", "\n"), button, make("span", "", "\n"));
      write(box, text.slice(-TAIL));
    }
    return box;
  };
  const set = (text) => { // an answer, which is LaTeX without dollar signs
    const place = document.createElement("span");
    if (text.length < 300 && /[\\^_{}]/.test(text)) place.append(latex.render(text, false));
    else place.append(text);
    place.title = text;
    return place;
  };

  const part = ([title, name, answer, reason, facts, text, cut, omitted], alone) => {
    const answers = make("dl", "answers");
    if (!alone) answers.append(make("dt", "", "verdict"), make("dd", "", verdict(name)));
    answers.append(make("dt", "", "answer"), make("dd", "", answer === null ? make("em", "", "none found") : set(answer)));
    if (reason) answers.append(make("dt", "", "because"), make("dd", "", reason));
    return make("section", "part", make("h4", "", title), answers, make("p", "facts", facts), said(text, "", cut, omitted));
  };

  const show = (item, focus) => {
    current = item;
    const head = make("div", "head"), back = make("button", "back", "← list");
    back.type = "button";
    back.addEventListener("click", close);
    head.append(back, ...item.tags.map(verdict), make("strong", "", item.id));
    const toggle = make("button", "", asSource ? "show formulas" : "show source");
    toggle.type = "button";
    toggle.addEventListener("click", flip);
    head.append(toggle);
    const facts = [data.groups.length > 1 ? data.groups[item.group] : null, item.subject, item.level === null ? null : `level ${item.level}`];
    const gold = make("dl", "answers", make("dt", "", "right answer"), make("dd", "", set(item.gold)));
    const siblings = items.filter((other) => other.problem === item.problem && other.group === item.group);
    const nodes = [head, make("p", "facts", facts.filter(Boolean).join(" · ")),
      item.text ? said(item.text, "problem", 0, 0) : make("p", "facts", "The run folder does not hold the text of this problem."), gold];
    if (siblings.length > 1) {
      const row = make("div", "chips");
      for (const other of siblings) {
        const button = make("button", "", `${SIGNS[other.tags[0]] ?? "·"} ${other.label}`);
        button.type = "button";
        button.setAttribute("aria-pressed", String(other === item));
        button.title = `${data.label} ${other.label}: ${other.tags.join(", ")}`;
        button.addEventListener("click", () => show(other, false));
        row.append(button);
      }
      nodes.push(make("h4", "", `${siblings.length} ${data.label}s of this problem`), row);
    }
    const parts = make("div", `parts ${item.parts.length > 1 ? "two" : ""}`);
    for (const each of item.parts) parts.append(part(each, item.parts.length === 1));
    nodes.push(parts);
    detail.replaceChildren(...nodes);
    detail.scrollTop = 0;
    while (made < found.length && found.includes(item) && !rowOf(item)) more();
    mark();
    if (focus) {
      rowOf(item)?.scrollIntoView({ block: "nearest" });
      document.body.classList.add("reading");
      if (!wide()) back.focus();
      clearTimeout(linking); // browsers limit how often an address may change
      linking = setTimeout(() => history.replaceState(null, "", `#${encodeURIComponent(item.link)}`), 400);
    }
  };
  const close = () => {
    document.body.classList.remove("reading");
    if (current) rowOf(current)?.focus();
  };
  const flip = () => {
    asSource = !asSource;
    if (current) show(current, false);
  };
  const step = (by) => {
    const place = found.indexOf(current), next = found[place < 0 ? 0 : place + by];
    if (next) show(next, true);
  };

  list.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-index]");
    if (button) show(items[Number(button.dataset.index)], true);
  });
  for (const name of ["", ...data.tags]) {
    const size = name ? items.filter((item) => item.tags.includes(name)).length : items.length;
    if (!size && name) continue;
    const button = make("button", "", `${name || "all"} ${size.toLocaleString("en")}`);
    button.type = "button";
    button.dataset.tag = name;
    button.setAttribute("aria-pressed", String(name === tag));
    button.addEventListener("click", () => {
      tag = name;
      for (const other of chips.children) other.setAttribute("aria-pressed", String(other === button));
      filter();
    });
    chips.append(button);
  }
  for (const select of selects) select.addEventListener("change", filter);
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const writing = /^(?:INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape") { if (document.body.classList.contains("reading")) close(); else search.blur(); }
    else if (writing) { if (event.key === "Enter" && event.target === search && found.length) { search.blur(); show(found[0], true); } }
    else if (event.key === "/") { event.preventDefault(); search.focus(); search.select(); }
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "s") flip();
    else if (event.key === "ArrowDown" && list.contains(document.activeElement)) { event.preventDefault(); step(1); rowOf(current)?.focus(); }
    else if (event.key === "ArrowUp" && list.contains(document.activeElement)) { event.preventDefault(); step(-1); rowOf(current)?.focus(); }
  });

  filter();
  let wanted = "";
  try { wanted = decodeURIComponent(location.hash.slice(1)); } catch { /* not one of our links */ }
  const linked = items.find((item) => item.link === wanted);
  if (linked) show(linked, true);
  document.documentElement.dataset.ready = String(Math.round(performance.now())); // milliseconds after the page was asked for
})();
