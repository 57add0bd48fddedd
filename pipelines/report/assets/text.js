// Where in a text the formulas are, and the text with its formulas set.
"use strict";
const texts = (() => {
  const LONGEST = 6000; // characters of a formula

  const closing = (text, from) => { // the brace that closes the one before `from`
    let depth = 1;
    for (let at = from; at < text.length && at < from + LONGEST; at += 1) {
      if (text[at] === "\\") at += 1;
      else if (text[at] === "{") depth += 1;
      else if (text[at] === "}" && !(depth -= 1)) return at;
    }
    return -1;
  };
  const ending = (text, mark, from) => {
    const end = text.slice(from, from + LONGEST).indexOf(mark);
    return end < 0 ? -1 : from + end;
  };
  const MONEY = /^\d[\d,.]*\s+[a-zA-Z]{2}/;
  const dollarEnd = (text, from) => { // of $…$, or -1 where the sign is money or stands alone
    if (MONEY.test(text.slice(from, from + 40))) return -1;
    for (let at = from; at < text.length && at < from + LONGEST; at += 1) {
      if (text[at] === "\\") at += 1;
      else if (text[at] === "\n" && text[at + 1] === "\n") return -1;
      else if (text[at] === "$") {
        const inside = text.slice(from, at);
        const spaced = /^\s|\s$/.test(inside) || !inside || /\d/.test(text[at + 1] ?? "");
        return spaced && !/[\\^_=+<>]/.test(inside) ? -1 : at;
      }
    }
    return -1;
  };
  const PAIRS = [["$$", "$$", true], ["\\[", "\\]", true], ["\\(", "\\)", false]];

  // Splits a text into [kind, content] pieces; kinds are text, inline, display and drawing.
  const pieces = (text) => {
    const found = [];
    const marks = /\\\$|\$\$?|\\\[|\\\(|\\boxed\s*\{|\\begin\{([a-zA-Z]+\*?)\}|\[asy\]/g;
    let done = 0;
    const take = (start, end, kind, content) => {
      if (start > done) found.push(["text", text.slice(done, start)]);
      found.push([kind, content]);
      done = marks.lastIndex = end;
    };
    for (let mark = marks.exec(text); mark; mark = marks.exec(text)) {
      const start = mark.index, inside = marks.lastIndex;
      if (mark[0] === "\\$") { take(start, inside, "text", "$"); continue; }
      if (mark[0] === "[asy]") {
        const end = ending(text, "[/asy]", inside);
        if (end >= 0) take(start, end + 6, "drawing", text.slice(inside, end).trim());
        continue;
      }
      if (mark[0].startsWith("\\boxed")) {
        const end = closing(text, inside);
        if (end >= 0) take(start, end + 1, "inline", text.slice(start, end + 1));
        continue;
      }
      if (mark[1]) {
        const last = `\\end{${mark[1]}}`, end = ending(text, last, inside);
        if (end >= 0) take(start, end + last.length, "display", text.slice(start, end + last.length));
        continue;
      }
      if (mark[0] === "$") {
        const end = dollarEnd(text, inside);
        if (end >= 0) take(start, end + 1, "inline", text.slice(inside, end));
        continue;
      }
      const [, last, display] = PAIRS.find(([first]) => first === mark[0]);
      const end = ending(text, last, inside);
      if (end > inside) take(start, end + last.length, display ? "display" : "inline", text.slice(inside, end));
    }
    if (done < text.length) found.push(["text", text.slice(done)]);
    return found;
  };

  // Fills `place` with the text, its formulas set; nothing of the text is ever read as HTML.
  const fill = (place, text) => {
    const all = pieces(text);
    for (const [at, [kind, content]] of all.entries()) {
      if (kind === "text") { // a display stands on a line of its own already
        const after = all[at - 1]?.[0] === "display", before = all[at + 1]?.[0] === "display";
        place.append(content.slice(after && content[0] === "\n" ? 1 : 0, before && content.at(-1) === "\n" ? -1 : undefined));
      }
      else if (kind === "drawing") {
        const block = document.createElement("span");
        block.className = "drawing";
        block.textContent = content;
        place.append(block);
      } else place.append(latex.render(content, kind === "display"));
    }
  };
  // The text on one line, formulas as far as plain signs allow.
  const flat = (text) => text.slice(0, 400).replace(/\[asy\][\s\S]*?(?:\[\/asy\]|$)/g, "").replace(/\\left|\\right|\\[\[\]() ,!;]|(?<!\\)\$/g, "")
    .replace(/\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}/g, "$1/$2").replace(/\\[dtc]?frac\s*(\w)\s*(\w)/g, "$1/$2").replace(/\\sqrt\b/g, "√")
    .replace(/\\([a-zA-Z]+|[%$#&_{}|])/g, (_, name) => latex.sign(name))
    .replace(/[{}]/g, "").replace(/\s+/g, " ").trim();
  return { fill, flat };
})();
