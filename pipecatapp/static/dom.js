// Builds DOM without strings of markup: text only ever becomes a text node.

/** `h("a", { class: "x", href: "#/", onclick: go, testid: "home" }, "Home", icon)`; null, undefined and false are left out. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(props)) put(element, name, value)
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false))
  return element
}

function put(element, name, value) {
  if (value === null || value === undefined || value === false) return
  if (typeof value === "function") element.addEventListener(name.slice(2), value)
  else if (name === "testid") element.dataset.testid = value
  else if (name === "dataset") Object.assign(element.dataset, value)
  else if (name === "value" || name === "checked" || name === "text") element[name] = value
  else element.setAttribute(name, value === true ? "" : value)
}

const SVG = "http://www.w3.org/2000/svg"

/** The same for SVG; every property is an attribute. */
export function s(tag, props = {}, ...children) {
  const element = document.createElementNS(SVG, tag)
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

/** Says `text` to screen readers without moving anybody's focus. */
export function announce(text) {
  document.getElementById("announcer")?.replaceChildren(text)
}
