import { h } from "../dom.js"
import { jsonView } from "./json-view.js"

const AROUND = 300 // equal characters that are shown before and after what differs
const LONGEST = 4000
const WORD = /[\p{L}\p{N}]/u
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,/

/**
 * Two values beside each other under a name. Of two texts the part that differs is marked; a picture is shown as one;
 * `undefined` stands for a value that a run does not have.
 */
export function sideBySide(name, before, after) {
  const texts = typeof before === "string" && typeof after === "string" && !picture(before) && !picture(after)
  const [left, right] = texts ? marked(before, after) : [shown(before), shown(after)]
  return h("div", { class: "sides", testid: "sides", dataset: { name } }, h("h3", { class: "sides-name" }, name), side("Before", left), side("After", right))
}

const side = (label, content) => h("div", { class: "side" }, h("span", { class: "side-label" }, label), content)

function shown(value) {
  if (value === undefined) return h("span", { class: "quiet" }, "not there")
  const pictures = picturesOf(value)
  if (pictures.length) return h("div", { class: "side-pictures" }, pictures.map((src) => h("img", { src, alt: "Picture in this value", testid: "side-picture" })))
  return jsonView(value)
}

const picture = (value) => typeof value === "string" && PICTURE.test(value)

/** The pictures in a value, wherever they lie in it; the parts of a chat message hold them as addresses. */
function picturesOf(value) {
  if (picture(value)) return [value]
  return value && typeof value === "object" ? Object.values(value).flatMap(picturesOf) : []
}

/** Two texts, each with the part marked that the other has not: what lies between their equal beginning and end, in whole words. */
function marked(before, after) {
  if (before === after) return [jsonView(before), jsonView(after)]
  let start = 0
  while (start < Math.min(before.length, after.length) && before[start] === after[start]) start += 1
  let end = 0
  while (end < Math.min(before.length, after.length) - start && before.at(-1 - end) === after.at(-1 - end)) end += 1
  while (start && WORD.test(before[start - 1])) start -= 1
  while (end && WORD.test(before.at(-end))) end -= 1
  return [before, after].map((text) => {
    const [same, other, rest] = [text.slice(0, start), text.slice(start, text.length - end), text.slice(text.length - end)]
    return h("p", { class: "value-text side-text" }, same.length > AROUND ? `…${same.slice(-AROUND)}` : same, h("mark", {}, other.length > LONGEST ? `${other.slice(0, LONGEST)}…` : other), rest.length > AROUND ? `${rest.slice(0, AROUND)}…` : rest)
  })
}
