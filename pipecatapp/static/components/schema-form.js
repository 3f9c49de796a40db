import { h } from "../dom.js"
import { draftOf, keepDraft } from "../drafts.js"
import { icon } from "../icons.js"

export const WRONG = Symbol("cannot be read")
const DEEPEST = 5 // objects inside each other that have fields of their own; deeper ones are typed as JSON

/**
 * A form for inputs, from their JSON Schema: {element, values(), tell(message), fields, mark(path, words)}. `values()`
 * gives the inputs, or null after it has marked what cannot be read. `tell` marks the fields that a message of the
 * server names first, as "path: Field required; limit: …". `fields` are {name, element, read()}, whose `read` gives
 * undefined for a field that is left out and WRONG for one that cannot be read. What is typed is kept as a draft under
 * the name `draft`, with which the next form begins; without a name it is not kept.
 */
export function schemaForm(schema, { empty = "This workflow needs no inputs.", draft = null } = {}) {
  const all = new Map() // "limits.wall" → the field
  const keep = () => draft !== null && keepDraft(draft, JSON.stringify(contentOf(fields) ?? null))
  const fields = fieldsOf(schema, { root: schema, all, keep, above: "", depth: 0 })
  const element = h("div", { class: "fields", oninput: keep }, fields.length ? fields.map((each) => each.element) : h("p", { class: "quiet" }, empty))
  if (draft !== null) fill(fields, JSON.parse(draftOf(draft) || "null"))
  const values = () => {
    const found = valuesOf(fields)
    return found === WRONG ? null : found
  }
  const tell = (message) => {
    for (const part of message.split("; ")) {
      const [name, ...words] = part.replace(/^[\w.-]+: (?=[\w.[\]-]+: )/, "").split(": ")
      if (words.length) all.get(name)?.mark(words.join(": "))
    }
  }
  const mark = (path, message) => all.get(path)?.mark(message)
  return { element, values, tell, fields, mark }
}

const fieldsOf = (schema, place) => Object.entries(schema.properties ?? {}).map(([name, each]) => field(name, resolved(each, place.root), schema.required?.includes(name), place))

/** The values of fields by name, without those that are left out; WRONG if one cannot be read. */
function valuesOf(fields) {
  const found = fields.map((each) => [each.name, each.read()])
  if (found.some(([, value]) => value === WRONG)) return WRONG
  return Object.fromEntries(found.filter(([, value]) => value !== undefined))
}

/** What was typed into fields, by name, as `fill` takes it; undefined where nothing was. */
function contentOf(fields) {
  const found = fields.map((each) => [each.name, each.content()]).filter(([, content]) => content !== undefined)
  return found.length ? Object.fromEntries(found) : undefined
}

/** Fills fields with what was typed into others; content of another kind is left out, because a schema may have changed since. */
function fill(fields, contents) {
  for (const each of fields) if (contents?.[each.name] !== undefined) each.fill(contents[each.name])
}

/** Follows a local reference, and takes the first real choice of `anyOf` (an optional value is "this or null"). */
export function resolved(property, schema) {
  const target = property.$ref ? { ...schema.$defs?.[property.$ref.split("/").at(-1)], ...property } : property
  const choice = target.anyOf?.find((each) => each.type === "number") ?? target.anyOf?.find((each) => each.type !== "null")
  if (!choice) return target
  const real = choice.$ref ? { ...schema.$defs?.[choice.$ref.split("/").at(-1)] } : choice
  return { ...real, ...target, type: real.type, description: target.description ?? real.description }
}

function field(name, schema, required, place) {
  const path = `${place.above}${name}`
  if (schema.properties && place.depth < DEEPEST) return group(name, path, schema, required, place)
  const items = schema.type === "array" && schema.items && resolved(schema.items, place.root)
  if (items?.properties && schema.type !== "json" && name !== "messages" && place.depth < DEEPEST) return rows(name, path, schema, items, required, place)
  return single(name, path, schema, required, place)
}

function single(name, path, schema, required, place) {
  const id = `input-${path}`
  const kind = KINDS.find((each) => each.fits(name, schema))
  const control = kind.control(schema)
  const fault = h("p", { class: "fault", id: `${id}-fault`, hidden: true })
  control.id = id
  control.dataset.testid = id
  if (required) control.setAttribute("aria-required", "true")
  control.setAttribute("aria-describedby", `${id}-hint ${id}-fault`)
  const label = h("label", { for: id }, words(name), !required && h("span", { class: "fine" }, "optional"))
  const hint = h("p", { class: "hint", id: `${id}-hint` }, schema.description ?? kind.hint ?? "")
  const mark = (error) => {
    fault.textContent = error ?? ""
    fault.hidden = !error
    control.toggleAttribute("aria-invalid", Boolean(error))
    for (let above = control.closest("details"); error && above; above = above.parentElement.closest("details")) above.open = true
  }
  const read = () => {
    const { value, error } = attempt(kind, control, schema, required)
    mark(error)
    return error ? WRONG : value
  }
  place.all.set(path, { mark })
  const tick = schema.type === "boolean"
  const now = () => (tick ? control.checked : control.value)
  const before = now()
  const changed = () => now() !== before
  const content = () => (changed() ? now() : undefined)
  const fillControl = (typed) => {
    if (typeof typed === typeof now()) control[tick ? "checked" : "value"] = typed
  }
  return { name, read, changed, content, fill: fillControl, element: h("div", { class: tick ? "field tick" : "field" }, tick ? [control, label] : [label, control], hint, fault) }
}

/** An object with fields of its own; an optional one counts once something in it was changed. */
function group(name, path, schema, required, place) {
  const fields = fieldsOf(schema, { ...place, above: `${path}.`, depth: place.depth + 1 })
  const changed = () => fields.some((each) => each.changed())
  const read = () => (required || changed() ? valuesOf(fields) : undefined)
  const hint = schema.description && h("p", { class: "hint" }, schema.description)
  const inner = h("div", { class: "fields" }, fields.map((each) => each.element))
  const element = required ? h("fieldset", { class: "field group" }, h("legend", {}, words(name)), hint, inner) : h("details", { class: "field group" }, h("summary", { testid: `group-${path}` }, words(name), h("span", { class: "fine" }, "optional")), hint, inner)
  const fillGroup = (typed) => {
    fill(fields, typed)
    if (changed()) element.open = true
  }
  return { name, read, changed, content: () => contentOf(fields), fill: fillGroup, element }
}

/** A list of objects: one group for each entry. */
function rows(name, path, schema, items, required, place) {
  const entries = []
  const list = h("ol", { class: "entries" })
  const add = h("button", { type: "button", class: "button", testid: `add-${path}`, onclick: () => added().focus() }, icon("plus"), "Add entry")
  const more = (given = {}) => {
    const above = `${path}.${entries.length}.`
    const fields = fieldsOf(Object.keys(given).length ? withValues(items, given, place.root) : items, { ...place, above, depth: place.depth + 1 })
    const entry = { given, fields, element: h("li", { class: "group" }, h("div", { class: "fields" }, fields.map((each) => each.element)), h("button", { type: "button", class: "link-button", onclick: () => drop(entry) }, icon("cross"), "Remove entry")) }
    entries.push(entry)
    list.append(entry.element)
    return entry.element.querySelector("input, select, textarea") ?? add
  }
  const added = () => {
    const first = more()
    place.keep()
    return first
  }
  const drop = (entry) => {
    const rest = entries.filter((each) => each !== entry).map((each) => [each.given, contentOf(each.fields)])
    clear()
    for (const [given, typed] of rest) {
      more(given) // with new numbers: the server names a field by its place in the list
      fill(entries.at(-1).fields, typed)
    }
    place.keep()
    list.dispatchEvent(new Event("change", { bubbles: true }))
    add.focus()
  }
  const read = () => {
    if (!entries.length && !required) return undefined
    const found = entries.map((entry) => valuesOf(entry.fields))
    return found.includes(WRONG) ? WRONG : found
  }
  if (Array.isArray(schema.default)) schema.default.forEach(more)
  const hint = schema.description && h("p", { class: "hint" }, schema.description)
  const contents = () => entries.map((entry) => contentOf(entry.fields) ?? {})
  const content = () => (entries.length ? contents() : undefined)
  const clear = () => {
    entries.length = 0
    list.replaceChildren()
  }
  const fillRows = (typed) => {
    if (!Array.isArray(typed)) return
    clear()
    for (const [index, each] of typed.entries()) {
      more(schema.default?.[index])
      fill(entries.at(-1).fields, each)
    }
  }
  return { name, read, changed: () => entries.length > 0, content, fill: fillRows, element: h("fieldset", { class: "field group" }, h("legend", {}, words(name), !required && h("span", { class: "fine" }, "optional")), hint, list, h("div", {}, add)) }
}

/**
 * The schema with given values as defaults, for a form that shows them. A value that its field cannot show, such as an
 * expression for a number, is edited as text or as JSON.
 */
export function withValues(schema, values, root = schema) {
  const fields = Object.entries(schema.properties ?? {}).map(([name, property]) => [name, name in values ? withValue(name, resolved(property, root), values[name], root) : untyped(resolved(property, root)) ? { ...property, type: "any" } : property])
  return { ...schema, properties: Object.fromEntries(fields) }
}

function withValue(name, schema, value, root) {
  const { description } = schema
  const said = name === "messages" && value?.length === 1 && value[0].role === "user" ? value[0].content : value
  if (typeof said === "string" && name === "messages" && Array.isArray(value)) return { ...schema, default: said }
  if (typeof value === "string" && (value.includes("{{") || schema.type === undefined)) return { type: "string", description, default: value }
  if (schema.properties && isObject(value)) return { ...withValues(schema, value, root), default: value }
  const fits = { string: typeof value === "string", boolean: typeof value === "boolean", array: Array.isArray(value), integer: typeof value === "number", number: typeof value === "number" }[schema.type]
  return fits && name !== "messages" ? { ...schema, default: value } : { type: "json", description, default: value }
}

const untyped = ({ type, enum: choices, properties }) => type === undefined && !choices && !properties
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value)

const words = (name) => name.replaceAll("_", " ")

function attempt(kind, control, schema, required) {
  const text = control.type === "checkbox" ? "" : control.value.trim()
  if (control.type !== "checkbox" && !text) return required ? { error: "This is needed." } : { value: undefined }
  try {
    return { value: kind.read(control, text, schema) }
  } catch (error) {
    return { error: error.message }
  }
}

const initial = (schema) => (schema.default === undefined || schema.default === null ? "" : typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default, null, 2))

const KINDS = [
  {
    fits: (_, { enum: choices }) => Array.isArray(choices),
    control: (schema) => h("select", { value: undefined }, h("option", { value: "" }, "Choose…"), schema.enum.map((choice) => h("option", { value: choice, selected: choice === schema.default }, String(choice)))),
    read: (_, text, schema) => schema.enum.find((choice) => String(choice) === text),
  },
  {
    fits: (_, { type }) => type === "boolean",
    control: (schema) => h("input", { type: "checkbox", checked: Boolean(schema.default) }),
    read: (control) => control.checked,
  },
  {
    fits: (_, { type }) => type === "integer" || type === "number",
    control: (schema) => h("input", { type: "number", step: schema.type === "integer" ? 1 : "any", min: schema.minimum, max: schema.maximum, value: initial(schema) }),
    read: (_, text) => Number(text),
  },
  {
    fits: (_, { type }) => type === "string",
    control: (schema) => h("textarea", { rows: 2, value: initial(schema) }),
    read: (_, text) => text,
  },
  {
    fits: (name, { type }) => name === "messages" && type !== "json",
    control: (schema) => h("textarea", { rows: 3, value: initial(schema) }),
    hint: "What you would say to it.",
    read: (_, text) => [{ role: "user", content: text }],
  },
  {
    fits: (_, { type, items }) => type === "array" && items?.type === "string",
    control: (schema) => h("textarea", { rows: 3, value: (schema.default ?? []).join("\n") }),
    hint: "One on each line.",
    read: (_, text) => text.split("\n").map((line) => line.trim()).filter(Boolean),
  },
  {
    fits: (_, { type }) => type === "any",
    control: (schema) => h("textarea", { rows: 2, value: initial(schema) }),
    hint: "A text, or a value as JSON.",
    read: (_, text) => {
      try {
        return JSON.parse(text)
      } catch {
        return text // not JSON: a text as it is
      }
    },
  },
  {
    fits: () => true,
    control: (schema) => h("textarea", { rows: 4, class: "mono", spellcheck: "false", value: initial(schema) }),
    hint: "As JSON.",
    read: (_, text) => {
      try {
        return JSON.parse(text)
      } catch {
        throw new Error("This is not valid JSON.")
      }
    },
  },
]
