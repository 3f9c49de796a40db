import { h } from "../dom.js"

/**
 * A form for the inputs of a workflow, from their JSON Schema: {element, values()}. `values()` gives the inputs,
 * or null after it has marked what cannot be read.
 */
export function schemaForm(schema) {
  const fields = Object.entries(schema.properties ?? {}).map(([name, each]) => field(name, resolved(each, schema), schema.required?.includes(name)))
  const element = h("div", { class: "fields" }, fields.length ? fields.map((each) => each.element) : h("p", { class: "quiet" }, "This workflow needs no inputs."))
  const values = () => {
    const found = fields.map((each) => [each.name, each.read()])
    if (found.some(([, value]) => value === WRONG)) return null
    return Object.fromEntries(found.filter(([, value]) => value !== undefined))
  }
  return { element, values }
}

const WRONG = Symbol("cannot be read")

/** Follows a local reference, and takes the first real choice of `anyOf` (an optional value is "this or null"). */
function resolved(property, schema) {
  const target = property.$ref ? { ...schema.$defs?.[property.$ref.split("/").at(-1)], ...property } : property
  const choice = target.anyOf?.find((each) => each.type === "number") ?? target.anyOf?.find((each) => each.type !== "null")
  return choice ? { ...choice, ...target, type: choice.type } : target
}

function field(name, schema, required) {
  const id = `input-${name}`
  const kind = KINDS.find((each) => each.fits(name, schema))
  const control = kind.control(schema)
  const fault = h("p", { class: "fault", id: `${id}-fault`, hidden: true })
  control.id = id
  control.dataset.testid = id
  if (required) control.setAttribute("aria-required", "true")
  control.setAttribute("aria-describedby", `${id}-hint ${id}-fault`)
  const label = h("label", { for: id }, name.replaceAll("_", " "), !required && h("span", { class: "fine" }, "optional"))
  const hint = h("p", { class: "hint", id: `${id}-hint` }, schema.description ?? kind.hint ?? "")
  const read = () => {
    const { value, error } = attempt(kind, control, schema, required)
    fault.textContent = error ?? ""
    fault.hidden = !error
    control.toggleAttribute("aria-invalid", Boolean(error))
    return error ? WRONG : value
  }
  const tick = schema.type === "boolean"
  return { name, read, element: h("div", { class: tick ? "field tick" : "field" }, tick ? [control, label] : [label, control], hint, fault) }
}

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
    fits: (name) => name === "messages",
    control: () => h("textarea", { rows: 3 }),
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
