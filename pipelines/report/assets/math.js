// LaTeX to MathML, as far as answers to mathematical problems use it. What is not understood is shown as its source.
"use strict";
const latex = (() => {
  const NS = "http://www.w3.org/1998/Math/MathML";
  const DEEPEST = 60, LONGEST = 6000;

  const make = (name, children = [], attributes = {}) => {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const row = (nodes) => (nodes.length === 1 ? nodes[0] : make("mrow", nodes));
  const letters = (text) => make("mi", [text]);
  const operator = (text, attributes) => make("mo", [text], attributes);
  const table = (text) => new Map(text.trim().split(/\s+/).map((pair) => pair.split("=")));

  const IDENTIFIERS = table(`alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι
    kappa=κ lambda=λ mu=μ nu=ν xi=ξ pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ
    psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω infty=∞ ell=ℓ hbar=ℏ
    partial=∂ nabla=∇ emptyset=∅ varnothing=∅ Re=ℜ Im=ℑ aleph=ℵ degree=° imath=ı jmath=ȷ top=⊤ bot=⊥ checkmark=✓ $=$ %=%
    #=# &=& _=_`);
  const OPERATORS = table(`times=× div=÷ cdot=⋅ pm=± mp=∓ ast=∗ star=⋆ circ=∘ bullet=∙ oplus=⊕ otimes=⊗ le=≤ leq=≤ leqslant=≤
    ge=≥ geq=≥ geqslant=≥ ne=≠ neq=≠ lt=< gt=> ll=≪ gg=≫ equiv=≡ approx=≈ sim=∼ simeq=≃ cong=≅ propto=∝ in=∈ notin=∉ ni=∋
    subset=⊂ subseteq=⊆ supset=⊃ supseteq=⊇ cup=∪ cap=∩ setminus=∖ land=∧ wedge=∧ lor=∨ vee=∨ neg=¬ lnot=¬ forall=∀ exists=∃
    to=→ rightarrow=→ leftarrow=← gets=← leftrightarrow=↔ Rightarrow=⇒ implies=⟹ Leftarrow=⇐ iff=⟺ Leftrightarrow=⇔ mapsto=↦
    longrightarrow=⟶ Longrightarrow=⟹ uparrow=↑ downarrow=↓ nearrow=↗ searrow=↘ mid=∣ nmid=∤ parallel=∥ perp=⊥ angle=∠
    measuredangle=∡ triangle=△ square=□ Box=□ diamond=⋄ therefore=∴ because=∵ dots=… ldots=… dotsc=… dotsb=⋯ dotsm=⋯ dotsi=⋯ cdots=⋯ vdots=⋮
    ddots=⋱ prime=′ colon=: backslash=\\ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ langle=⟨ rangle=⟩ lvert=| rvert=| vert=| Vert=‖
    lVert=‖ rVert=‖ |=‖ {={ }=} lbrace={ rbrace=} lbrack=[ rbrack=] lparen=( rparen=) surd=√ models=⊨ vdash=⊢ blacksquare=■ clubsuit=♣ diamondsuit=♢ heartsuit=♡ spadesuit=♠`);
  const LARGE = table(`sum=∑ prod=∏ coprod=∐ int=∫ iint=∬ iiint=∭ oint=∮ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂ bigvee=⋁ bigwedge=⋀`);
  const FUNCTIONS = new Set(`arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lcm lg lim liminf limsup
    ln log max min Pr sec sin sinh sup tan tanh sgn rank`.split(/\s+/));
  const UNDER = new Set(["lim", "max", "min", "sup", "inf", "limsup", "liminf", "gcd", "det", "Pr"]);
  const SPACES = { ",": "0.17em", ":": "0.22em", ">": "0.22em", ";": "0.28em", " ": "0.33em", "!": "0", quad: "1em", qquad: "2em",
    "~": "0.33em", thinspace: "0.17em", enspace: "0.5em", hfill: "1em", space: "0.33em" };
  const ACCENTS = { hat: "^", widehat: "^", tilde: "~", widetilde: "~", vec: "→", dot: "˙", ddot: "¨",
    overrightarrow: "→", overleftrightarrow: "↔", overleftarrow: "←", overbrace: "⏞", overarc: "⌢", wideparen: "⌢", mathring: "˚" };
  const BELOW = { underbrace: "⏟" };
  const FONTS = { mathbb: "double-struck", mathbf: "bold", boldsymbol: "bold", bold: "bold", bm: "bold", mathcal: "script", mathscr: "script",
    mathfrak: "fraktur", mathsf: "sans-serif", mathtt: "monospace" };
  const UPRIGHT = new Set(["mathrm", "operatorname", "mathit", "mathop", "mathord", "mathrel", "mathbin", "rm"]);
  const TEXTS = new Set(["text", "mbox", "textbf", "textit", "textrm", "texttt", "textsf", "textnormal", "emph", "hbox"]);
  const NOTHING = new Set(["displaystyle", "textstyle", "scriptstyle", "limits", "nolimits", "nonumber", "notag", "hline", "allowbreak",
    "bf", "it", "boldmath", "protect", "relax", "strut", "noindent", "centering", "normalsize", "large", "Large", "small", "/"]);
  const DROPPED = new Set(["label", "color", "vspace", "hspace", "vskip", "phantom", "hphantom", "vphantom", "tag", "kern", "cline"]);
  const SIZES = /^(?:big|Big|bigg|Bigg)[lrm]?$/;
  const FENCES = { pmatrix: "round", bmatrix: "square", Bmatrix: "round", vmatrix: "bar", Vmatrix: "bars", cases: "brace" };
  const STYLED = { "double-struck": [0x1d538, 0x1d552, 0x1d7d8], bold: [0x1d400, 0x1d41a, 0x1d7ce], script: [0x1d49c, 0x1d4b6],
    fraktur: [0x1d504, 0x1d51e], "sans-serif": [0x1d5a0, 0x1d5ba, 0x1d7e2], monospace: [0x1d670, 0x1d68a, 0x1d7f6] };
  const ELSEWHERE = { "double-struck": table("C=ℂ H=ℍ N=ℕ P=ℙ Q=ℚ R=ℝ Z=ℤ"), fraktur: table("C=ℭ H=ℌ I=ℑ R=ℜ Z=ℨ"),
    script: table("B=ℬ E=ℰ F=ℱ H=ℋ I=ℐ L=ℒ M=ℳ R=ℛ e=ℯ g=ℊ o=ℴ") };

  const styled = (text, font) => Array.from(text, (letter) => {
    const known = ELSEWHERE[font]?.get(letter);
    const place = /[A-Z]/.test(letter) ? 0 : /[a-z]/.test(letter) ? 1 : /[0-9]/.test(letter) ? 2 : -1;
    const start = STYLED[font][place];
    return known ?? (start ? String.fromCodePoint(start + letter.codePointAt(0) - "Aa0".codePointAt(place)) : letter);
  }).join("");

  class Parser {
    constructor(source) {
      if (source.length > LONGEST) throw new Error("too long");
      this.tokens = source.replace(/\\cr\b/g, "\\\\").match(/\\[a-zA-Z]+\*?|\\[\s\S]|%[^\n]*\n?|\d+(?:[.,]\d+)*|\s+|[\s\S]/gu) ?? [];
      this.at = 0;
      this.depth = 0;
    }
    peek() {
      while (this.at < this.tokens.length && /^(?:\s+|%[\s\S]*)$/.test(this.tokens[this.at])) this.at += 1;
      return this.tokens[this.at];
    }
    next() {
      const token = this.peek();
      if (token === undefined) throw new Error("ends too early");
      this.at += 1;
      return token;
    }
    all() {
      const nodes = this.row(() => false);
      if (this.peek() !== undefined) throw new Error(`unexpected ${this.peek()}`);
      return nodes;
    }
    row(ends) {
      if ((this.depth += 1) > DEEPEST) throw new Error("too deep");
      const nodes = [];
      for (let token = this.peek(); token !== undefined && !ends(token); token = this.peek()) {
        if (token === "}" || token === "&" || token === "\\\\" || token === "\\end" || token === "\\right") {
          if (token === "\\\\") { this.at += 1; nodes.push(make("mspace", [], { linebreak: "newline", width: "1em" })); continue; }
          throw new Error(`unexpected ${token}`);
        }
        if (token === "\\over" || token === "\\choose") {
          this.at += 1;
          const below = row(this.row(ends)), above = row(nodes.splice(0));
          nodes.push(token === "\\over" ? make("mfrac", [above, below]) : binomial(above, below));
          break;
        }
        const node = this.scripted();
        if (node) nodes.push(node);
      }
      this.depth -= 1;
      return nodes;
    }
    scripted() {
      const first = this.peek();
      let base = first === "^" || first === "_" ? make("mrow") : this.atom();
      let sub = null, sup = null;
      for (let token = this.peek(); token === "^" || token === "_" || token === "'" || token === "\\limits" || token === "\\nolimits"; token = this.peek()) {
        this.at += 1;
        if (token === "'") sup = sup ? make("mrow", [sup, operator("′")]) : operator("′");
        else if (token === "_") { if (sub) throw new Error("double subscript"); sub = this.argument(); }
        else if (token === "^") { const above = this.argument(); sup = sup ? make("mrow", [sup, above]) : above; }
      }
      if (!sub && !sup) return base;
      base ??= make("mrow");
      const under = base.dataset?.under || base.getAttribute("data-under");
      if (sub && sup) return make(under ? "munderover" : "msubsup", [base, sub, sup]);
      return sub ? make(under ? "munder" : "msub", [base, sub]) : make(under ? "mover" : "msup", [base, sup]);
    }
    argument() {
      const token = this.peek();
      if (token === "{") return row(this.group());
      if (/^\d+/.test(token ?? "") && token.length > 1) {
        this.tokens[this.at] = token.slice(1);
        return make("mn", [token[0]]);
      }
      return this.atom() ?? make("mrow");
    }
    group() {
      if (this.next() !== "{") throw new Error("expected {");
      const nodes = this.row((token) => token === "}");
      this.next();
      return nodes;
    }
    raw() {
      if (this.peek() !== "{") return this.next();
      this.at += 1;
      let depth = 1, text = "";
      for (;;) {
        const token = this.tokens[this.at++];
        if (token === undefined) throw new Error("ends too early");
        depth += token === "{" ? 1 : token === "}" ? -1 : 0;
        if (!depth) return text;
        text += token;
      }
    }
    atom() {
      const token = this.next();
      if (token === "{") { this.at -= 1; return row(this.group()); }
      if (/^\d/.test(token)) return make("mn", [token]);
      if (token[0] === "\\") return this.command(token.slice(1));
      if (token === "~") return make("mspace", [], { width: SPACES["~"] });
      if (token === "$") return null;
      if (token === "-") return operator("−");
      if (token === "'") return operator("′");
      if (/^\p{L}$/u.test(token)) return letters(token);
      return operator(token, "()[]|".includes(token) ? { stretchy: "false" } : {});
    }
    command(name) {
      if (IDENTIFIERS.has(name)) return letters(IDENTIFIERS.get(name));
      if (OPERATORS.has(name)) return operator(OPERATORS.get(name), { stretchy: "false" });
      if (LARGE.has(name)) return operator(LARGE.get(name), name.endsWith("int") ? {} : { "data-under": "1", movablelimits: "true" });
      if (FUNCTIONS.has(name)) return make("mi", [name], UNDER.has(name) ? { "data-under": "1" } : {});
      if (Object.hasOwn(SPACES, name)) return make("mspace", [], { width: SPACES[name] });
      if (/^\s$/.test(name)) return make("mspace", [], { width: SPACES[" "] });
      if (NOTHING.has(name)) return null;
      if (DROPPED.has(name)) { this.raw(); return null; }
      if (SIZES.test(name)) return this.delimiter();
      if (TEXTS.has(name)) return make("mtext", [plain(this.raw())]);
      if (Object.hasOwn(FONTS, name)) return make("mi", [styled(plain(this.raw()), FONTS[name])]);
      if (UPRIGHT.has(name.replace("*", ""))) return make("mi", [plain(this.raw())], { mathvariant: "normal" });
      if (Object.hasOwn(ACCENTS, name)) return make("mover", [this.argument(), operator(ACCENTS[name], { stretchy: "true" })], { accent: "true" });
      if (Object.hasOwn(BELOW, name)) return make("munder", [this.argument(), operator(BELOW[name], { stretchy: "true" })]);
      switch (name) {
        case "frac": case "dfrac": case "cfrac": return make("mfrac", [this.argument(), this.argument()]);
        case "tfrac": return make("mstyle", [make("mfrac", [this.argument(), this.argument()])], { displaystyle: "false" });
        case "overline": case "bar": return make("mrow", [this.argument()], { class: "over" });
        case "underline": return make("mrow", [this.argument()], { class: "under" });
        case "binom": case "dbinom": case "tbinom": return binomial(this.argument(), this.argument());
        case "sqrt": {
          if (this.peek() !== "[") return root(this.argument());
          this.at += 1;
          const degree = row(this.row((token) => token === "]"));
          this.next();
          return make("mrow", [make("msup", [make("mrow"), degree]), root(this.argument())]);
        }
        case "boxed": case "fbox": case "framebox": return make("mrow", [this.argument()], { class: "boxed" });
        case "overset": case "stackrel": { const above = this.argument(); return make("mover", [this.argument(), above]); }
        case "underset": { const below = this.argument(); return make("munder", [this.argument(), below]); }
        case "textcolor": case "raisebox": this.raw(); return this.argument();
        case "multicolumn": this.raw(); this.raw(); return this.argument();
        case "cancelto": { const above = this.argument(); return make("msup", [this.argument(), above]); }
        case "cancel": case "bcancel": case "not": case "smash": case "mathstrut": case "ensuremath": return this.argument();
        case "pmod": return make("mrow", [operator("("), make("mi", ["mod"]), make("mspace", [], { width: "0.3em" }), this.argument(), operator(")")]);
        case "bmod": case "mod": return operator("mod", { lspace: "0.3em", rspace: "0.3em" });
        case "left": return this.fenced();
        case "middle": return this.delimiter();
        case "begin": return this.environment(this.raw());
        case "(": case ")": case "[": case "]": return null;
        default: return make("mtext", [`\\${name}`]);
      }
    }
    delimiter() {
      const token = this.next();
      const text = token[0] === "\\" ? OPERATORS.get(token.slice(1)) : token;
      if (text === undefined) throw new Error(`no delimiter: ${token}`);
      return text === "." ? null : operator(text, { stretchy: "true" });
    }
    fenced() {
      const open = this.delimiter(), nodes = this.row((token) => token === "\\right");
      this.next();
      const close = this.delimiter();
      return make("mrow", [open, ...nodes, close].filter(Boolean));
    }
    environment(name) {
      const kind = name.replace("*", "");
      if (kind === "array" || kind === "tabular") this.raw();
      if ((this.depth += 1) > DEEPEST) throw new Error("too deep");
      const rows = [[]];
      for (;;) {
        rows.at(-1).push(make("mtd", this.row((token) => token === "&" || token === "\\\\" || token === "\\end")));
        const token = this.next();
        if (token === "\\end") break;
        if (token === "\\\\") {
          if (this.peek() === "[") while (this.next() !== "]");
          rows.push([]);
        }
      }
      this.depth -= 1;
      if (this.raw() !== name) throw new Error("environments cross");
      const filled = rows.filter((cells) => cells.length > 1 || cells[0].childNodes.length);
      const aligned = /^(?:align|aligned|alignat|split|eqnarray|gather|gathered|equation)$/.test(kind);
      const grid = make("mtable", filled.map((cells) => make("mtr", cells)), { class: aligned ? "aligned" : kind, displaystyle: String(aligned || kind === "lines") });
      if (aligned) for (const cells of filled) cells.forEach((cell, place) => cell.setAttribute("style", `text-align:${place % 2 ? "left" : "right"};padding:.2em .1em`));
      if (kind.endsWith("cases") || kind === "lines") for (const cells of filled) for (const cell of cells) cell.setAttribute("style", "text-align:left");
      const fence = FENCES[kind.replace("small", "p").replace(/^[dr]cases$/, "cases")];
      return fence ? make("mrow", [grid], { class: `fence ${fence}` }) : grid;
    }
  }

  // Drawn by borders: without a font for mathematics, browsers neither stretch fences nor draw roots.
  const root = (inside) => make("mrow", [operator("√", { stretchy: "false", rspace: "0" }), make("mrow", [inside], { class: "over" })]);
  const binomial = (above, below) => make("mrow", [operator("("), make("mfrac", [above, below], { linethickness: "0" }), operator(")")]);
  const plain = (text) => text.replace(/\\([$%#&_{} ,;])/g, "$1").replace(/[{}$]/g, "").replace(/~/g, "\u00a0").replace(/^ | $/g, "\u00a0");

  // A display of several lines, as models write it: each line of an equation under the one before.
  const lines = (source) => {
    if (source.includes("\\begin") || !/\\\\|\n\s*[=<>≤≥]/.test(source)) return source;
    return `\\begin{lines}${source.replace(/\n(?=\s*[=<>≤≥])/g, "\\\\")}\\end{lines}`;
  };
  const render = (source, display) => {
    try {
      return make("math", new Parser(display ? lines(source) : source).all(), { displaystyle: "true", ...(display ? { display: "block" } : {}) });
    } catch {
      const code = document.createElement("code");
      code.className = "tex";
      code.textContent = source;
      return code;
    }
  };

  // The sign of a command, as plain text; nothing for one that is no sign.
  const sign = (name) => IDENTIFIERS.get(name) ?? OPERATORS.get(name) ?? LARGE.get(name) ?? (FUNCTIONS.has(name) ? name : "");
  return { render, sign };
})();
