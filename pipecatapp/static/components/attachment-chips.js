import { h } from "../dom.js"
import { icon } from "../icons.js"

/** Attachments of a draft as chips that can be removed: each of `list` is {name, text} or {name, image}. */
export function draftChips(list, remove) {
  return list.map((each, i) => h("li", { class: "chip", testid: "draft-attachment" }, each.image ? h("img", { class: "chip-image", src: each.image, alt: "" }) : icon("file"), h("span", { class: "chip-name" }, each.name), h("button", { type: "button", class: "icon-button small", "aria-label": `Remove ${each.name}`, title: "Remove", testid: "remove-attachment", onclick: () => remove(i) }, icon("cross"))))
}

/** Attachments of a turn: links to their content, images as pictures. `address(i)` is null while the server has no run. */
export function turnChips(list, address) {
  return h("ul", { class: "chips turn-attachments", "aria-label": "Attachments" }, list.map(({ name, kind }, i) => h("li", {}, chip(name, kind, address(i)))))
}

function chip(name, kind, href) {
  if (!href) return h("span", { class: "chip", testid: "attachment" }, icon("file"), h("span", { class: "chip-name" }, name))
  const content = kind === "image" ? [h("img", { class: "turn-image", src: href, alt: name, loading: "lazy" })] : [icon("file"), h("span", { class: "chip-name" }, name)]
  return h("a", { class: kind === "image" ? "turn-picture" : "chip", href, target: "_blank", rel: "noopener", testid: "attachment" }, content)
}
