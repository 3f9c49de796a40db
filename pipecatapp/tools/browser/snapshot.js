// Collects the lines of a document that a person can see, and its interactive elements.
// Runs in an isolated world, so that scripts of the page cannot change the functions used here.
// Returns {lines, elements, cut}. A line is {parts, group, indent}: parts are texts and numbers of elements;
// lines with the same group belong to one item of a list of similar items.
(limits) => {
  const INTERACTIVE = new Set([
    "button", "checkbox", "combobox", "link", "listbox", "menuitem", "menuitemcheckbox",
    "menuitemradio", "option", "radio", "searchbox", "slider", "spinbutton", "switch", "tab",
    "textbox", "treeitem",
  ]);
  const NATIVE = { A: "link", BUTTON: "button", SELECT: "combobox", TEXTAREA: "textbox", SUMMARY: "button" };
  const INPUTS = {
    button: "button", submit: "button", reset: "button", image: "button", checkbox: "checkbox",
    radio: "radio", range: "slider", number: "spinbutton", search: "searchbox",
  };
  const SKIPPED = new Set(["SCRIPT", "STYLE", "TEMPLATE", "NOSCRIPT", "HEAD", "IFRAME", "OBJECT", "EMBED", "VIDEO", "AUDIO", "CANVAS"]);
  const WHOLE = new Set(["P", "H1", "H2", "H3", "H4", "H5", "H6", "BLOCKQUOTE", "PRE", "TD", "TH", "BR"]);
  const SMALLEST = 4; // pixels: no person reads text that is lower
  const SAME = 14; // difference of colours, per channel, that nobody sees
  const root = document.documentElement;
  const lines = [], elements = [];
  let cut = false, characters = 0;

  const parentOf = (node) => node.assignedSlot || node.parentElement || (node.getRootNode().host ?? null);

  // Colours, normalised by the browser itself.
  const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  const colour = (text) => {
    if (!colours.has(text)) {
      pixel.clearRect(0, 0, 1, 1);
      pixel.fillStyle = "#000";
      pixel.fillStyle = text;
      pixel.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
      colours.set(text, [r, g, b, a / 255]);
    }
    return colours.get(text);
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const same = (a, b) => [0, 1, 2].every((i) => Math.abs(a[i] - b[i]) <= SAME);
  const scheme = getComputedStyle(root).colorScheme;
  const canvas = scheme.includes("dark") && !scheme.includes("light") ? [18, 18, 18] : [255, 255, 255];

  const area = (a, b) =>
    a && { left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom) };
  const empty = (r) => r.right - r.left < 2 || r.bottom - r.top < 2;
  const EVERYTHING = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 };

  const cutAway = (style) => {
    const path = style.clipPath;
    if (/^(circle|ellipse)\(0(px|%)?[ )]/.test(path)) return true;
    const inset = /^inset\(([^)]*)\)/.exec(path);
    if (inset) {
      const [t, r = t, b = t, l = r] = inset[1].split(" ").map((one) => (one.endsWith("%") ? parseFloat(one) : NaN));
      if (t + b >= 100 || r + l >= 100) return true;
    }
    const rect = /^rect\(([^)]*)\)/.exec(style.clip);
    if (!rect) return false;
    const [t, r, b, l] = rect[1].split(/[ ,]+/).map(parseFloat);
    return b - t < 2 || r - l < 2;
  };

  // What the ancestors of an element do to its text: {shown, opacity, clip, fixed}.
  const looks = new Map();
  const look = (element) => {
    if (!element) return { shown: true, opacity: 1, clip: EVERYTHING, fixed: false };
    if (looks.has(element)) return looks.get(element);
    const outer = look(parentOf(element)), style = getComputedStyle(element);
    const faded = /opacity\(([\d.]+)(%?)\)/.exec(style.filter);
    const factor = faded ? parseFloat(faded[1]) / (faded[2] ? 100 : 1) : 1;
    const own = { shown: outer.shown && style.display !== "none" && !cutAway(style), opacity: outer.opacity * parseFloat(style.opacity) * factor, clip: outer.clip, fixed: outer.fixed };
    if (style.position === "fixed") Object.assign(own, { clip: EVERYTHING, fixed: true });
    else if (style.position === "absolute") own.clip = look(element.offsetParent).clip;
    const isView = element === root || element === document.body;
    if (!isView && style.display !== "contents" && (style.overflowX !== "visible" || style.overflowY !== "visible")) {
      const box = area(own.clip, element.getBoundingClientRect());
      const scrolls = [style.overflowX, style.overflowY].some((one) => one === "auto" || one === "scroll");
      if (empty(box)) own.shown = false;
      else own.clip = scrolls ? EVERYTHING : box;
    }
    looks.set(element, own);
    return own;
  };

  const reachable = (rect, fixed) => {
    const view = { width: innerWidth, height: innerHeight };
    if (fixed) return rect.right > 0 && rect.bottom > 0 && rect.left < view.width && rect.top < view.height;
    const left = rect.left + scrollX, right = rect.right + scrollX;
    const wide = Math.max(root.scrollWidth, document.body?.scrollWidth ?? 0, view.width);
    const isRight = getComputedStyle(root).direction === "rtl";
    const first = isRight ? view.width - wide : 0, last = isRight ? view.width : wide;
    return right > first && left < last && rect.bottom + scrollY > 0;
  };

  let painted = null; // everything that paints a background, for the rare text in the colour of its background
  const paintedAt = (rect, text, element) => {
    painted ??= [...document.querySelectorAll("*")].slice(0, 20000).flatMap((one) => {
      const style = getComputedStyle(one), fill = colour(style.backgroundColor);
      const image = style.backgroundImage !== "none" || /^(IMG|VIDEO|CANVAS|svg)$/.test(one.tagName);
      return image || fill[3] > 0.5 ? [{ one, image, fill, box: one.getBoundingClientRect() }] : [];
    });
    const x = (rect.left + rect.right) / 2, y = (rect.top + rect.bottom) / 2;
    return painted.some(
      ({ one, image, fill, box }) =>
        !one.contains(element) && box.left <= x && x <= box.right && box.top <= y && y <= box.bottom &&
        look(one).shown && (image || !same(text, fill)),
    );
  };

  const isReadable = (element, rect, opacity) => {
    const style = getComputedStyle(element);
    if (style.textShadow !== "none") return true;
    const fills = [];
    for (let one = element; one; one = parentOf(one)) {
      const own = getComputedStyle(one);
      if (own.backgroundImage !== "none") return true; // not known
      const fill = colour(own.backgroundColor);
      if (fill[3] > 0) fills.push(fill);
      if (fill[3] === 1) break;
    }
    const behind = fills.reduceRight((below, fill) => over(fill, below), canvas);
    const ink = colour(style.webkitTextFillColor);
    const text = over([ink[0], ink[1], ink[2], ink[3] * opacity], behind);
    return !same(text, behind) || paintedAt(rect, text, element);
  };

  const canSee = (node) => {
    const element = node.nodeType === 3 ? parentOf(node) : node;
    if (!element?.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
    const { shown, opacity, clip, fixed } = look(element);
    if (!shown || opacity < 0.1) return false;
    let rects;
    if (node.nodeType === 3) {
      const range = document.createRange();
      range.selectNodeContents(node);
      rects = [...range.getClientRects()];
    } else rects = [...node.getClientRects()];
    const rect = rects.find((one) => one.height >= SMALLEST && one.width >= 1 && !empty(area(clip, one)) && reachable(one, fixed));
    return Boolean(rect) && (node.nodeType !== 3 || isReadable(element, rect, opacity));
  };

  // Elements.
  const trimmed = (text, length = 120) => {
    const line = String(text ?? "").replace(/\s+/g, " ").trim();
    return line.length > length ? `${line.slice(0, length - 1)}…` : line;
  };
  const roleOf = (element) => {
    if (element.tagName === "INPUT" && element.type === "hidden") return "";
    if (element.tagName === "A" && !element.href && !element.hasAttribute("role")) return "";
    const computed = element.computedRole;
    if (INTERACTIVE.has(computed)) return computed;
    if (element.tagName === "INPUT") return INPUTS[element.type] ?? "textbox";
    if (element.isContentEditable && !parentOf(element)?.isContentEditable) return "textbox";
    return NATIVE[element.tagName] ?? "";
  };
  const places = new Map();
  const placeOf = (element) => { // which of how many siblings with its tag; counted once for each parent
    const parent = element.parentElement;
    if (!parent) return [1, 1];
    if (!places.has(parent)) {
      const counts = {}, numbers = new Map();
      for (const one of parent.children) numbers.set(one, (counts[one.tagName] = (counts[one.tagName] ?? 0) + 1));
      places.set(parent, { counts, numbers });
    }
    const { counts, numbers } = places.get(parent);
    return [numbers.get(element), counts[element.tagName]];
  };
  const selectorOf = (element) => {
    const path = [];
    for (let one = element; one && one !== root; one = one.parentElement) {
      if (one.id && document.querySelectorAll(`#${CSS.escape(one.id)}`).length === 1) {
        path.unshift(`#${CSS.escape(one.id)}`);
        break;
      }
      const [at, count] = placeOf(one), tag = CSS.escape(one.localName);
      path.unshift(count > 1 ? `${tag}:nth-of-type(${at})` : tag);
    }
    return path.join(" > ");
  };
  const seenText = (element) => {
    const found = [];
    const visit = (node) => {
      if (node.nodeType === 3) {
        if (node.data.trim() && canSee(node)) found.push(node.data);
      } else if (node.nodeType === 1 && !SKIPPED.has(node.tagName)) for (const child of childrenOf(node)) visit(child);
    };
    visit(element);
    return trimmed(found.join(" "), 200);
  };
  const stateOf = (element, role) => {
    const states = [];
    if (element.matches(":checked") || element.getAttribute("aria-checked") === "true") states.push(element.tagName === "OPTION" ? "selected" : "checked");
    if (element.getAttribute("aria-selected") === "true") states.push("selected");
    if (element.matches(":disabled") || element.getAttribute("aria-disabled") === "true") states.push("disabled");
    const expanded = element.tagName === "SUMMARY" ? String(parentOf(element)?.open ?? false) : element.getAttribute("aria-expanded");
    if (expanded) states.push(expanded === "true" ? "open" : "closed");
    return states;
  };
  const valueOf = (element) => {
    if (element.tagName === "SELECT") return trimmed([...element.selectedOptions].map((one) => one.label).join(", "));
    if (element.type === "password") return element.value ? "•••" : "";
    if (element.tagName === "TEXTAREA" || (element.tagName === "INPUT" && !/^(button|submit|reset|image|checkbox|radio|file)$/.test(element.type))) return trimmed(element.value);
    return "";
  };
  const addElement = (element, role) => {
    const button = element.tagName === "INPUT" && role === "button";
    const text = element.tagName === "SELECT" || element.tagName === "TEXTAREA" ? "" : button ? trimmed(element.value || element.computedName) : seenText(element);
    const options = element.tagName === "SELECT" ? [...element.options].slice(0, 40).map((one) => trimmed(one.label, 60)) : [];
    elements.push({
      role, text, options, name: trimmed(element.computedName || text, 120), value: valueOf(element),
      states: stateOf(element, role), selector: selectorOf(element), computed: element.computedRole === role,
    });
    if (elements.length >= limits.elements) cut = true;
    return elements.length - 1;
  };

  // Groups of similar items: the outermost ancestor that has three siblings like it.
  const signature = (element) => `${element.tagName} ${element.className?.baseVal ?? element.className} ${[...element.children].map((one) => one.tagName).join(",")}`;
  const groups = new Map();
  const families = new Map();
  const groupOf = (element) => {
    if (!element || element === document.body || element === root) return "";
    if (groups.has(element)) return groups.get(element);
    let group = groupOf(parentOf(element));
    const family = element.parentElement;
    if (!group && family && !WHOLE.has(element.tagName)) {
      if (!families.has(family)) {
        const counts = new Map();
        for (const one of family.children) {
          const kind = signature(one);
          if (!counts.has(kind)) counts.set(kind, { number: counts.size, members: new Map() });
          counts.get(kind).members.set(one, counts.get(kind).members.size);
        }
        families.set(family, { id: families.size, counts });
      }
      const { id, counts } = families.get(family), like = counts.get(signature(element));
      if (like?.members.size >= 4) group = `${id}/${like.number}/${like.members.get(element)}`;
    }
    groups.set(element, group);
    return group;
  };

  // The walk.
  let parts = [], owner = null, prefix = "";
  const add = (part) => {
    const last = parts.length - 1;
    if (typeof part === "string" && typeof parts[last] === "string") parts[last] += part;
    else parts.push(part);
  };
  const flush = () => {
    const kept = parts.map((part) => (typeof part === "string" ? part.replace(/\s+/g, " ") : part)).filter((part) => part !== "");
    const has = kept.some((part) => typeof part === "number" || /[^\s|]/.test(part));
    if (has) {
      lines.push({ parts: prefix ? [prefix, ...kept] : kept, group: groupOf(owner) });
      characters += kept.reduce((sum, part) => sum + (typeof part === "string" ? part.length : 60), 0);
      if (lines.length >= limits.lines || characters >= limits.characters) cut = true;
      prefix = "";
    }
    parts = [];
    owner = null;
  };
  const childrenOf = (node) => {
    if (node.tagName === "DETAILS" && !node.open) return [...node.children].filter((one) => one.tagName === "SUMMARY").slice(0, 1);
    if (node.shadowRoot) return node.shadowRoot.childNodes;
    if (node.tagName === "SLOT" && node.assignedNodes().length) return node.assignedNodes();
    return node.childNodes;
  };
  const visit = (node) => {
    if (cut) return;
    if (node.nodeType === 3) {
      if (/^\s*$/.test(node.data)) { if (parts.length) add(" "); }
      else if (canSee(node)) { add(node.data); owner ??= parentOf(node); }
      return;
    }
    if (node.nodeType !== 1 || SKIPPED.has(node.tagName)) return;
    const style = getComputedStyle(node);
    if (style.display === "none") return;
    if (node.tagName === "BR") return flush();
    const role = node.tagName === "OPTION" ? "" : roleOf(node);
    const cell = style.display === "table-cell", inline = cell || /^(inline|contents|ruby)/.test(style.display);
    if (!inline) {
      flush();
      if (/^H[1-6]$/.test(node.tagName)) prefix = `${"#".repeat(Number(node.tagName[1]))} `;
      else if (node.tagName === "LI") prefix = "- ";
    }
    const isInput = /^(INPUT|SELECT|TEXTAREA)$/.test(node.tagName);
    if (role && (canSee(node) || (!isInput && seenText(node)))) {
      add(" "); add(addElement(node, role)); add(" "); owner ??= node;
    } else if (!isInput) {
      for (const child of childrenOf(node)) visit(child);
    }
    if (!inline) { flush(); prefix = ""; }
    else if (cell) add(" | ");
    else if (style.display === "inline-block" || style.display === "inline-flex") add(" ");
  };
  if (document.body) visit(document.body);
  flush();
  return { lines, elements, cut };
}
