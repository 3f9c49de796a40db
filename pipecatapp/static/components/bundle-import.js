import { postBytes } from "../api.js"
import { announce, h } from "../dom.js"
import { EFFECTS } from "../format.js"
import { icon } from "../icons.js"
import { diffBox, openDialog } from "./dialog.js"
import { problem } from "./notice.js"

const STATES = { new: "New", same: "Already here", changed: "Different here" }

/**
 * A button that takes a bundle: it shows who signed it and what would change, asks, and stores. Calls `stored()` when
 * documents were stored; messages are shown in `note`.
 */
export function bundleImport(note, stored) {
  const input = h("input", { type: "file", accept: ".hearth", hidden: true, testid: "bundle-file", onchange: () => take(input.files[0]) })
  const button = h("button", { type: "button", class: "button", testid: "bundle-import", onclick: () => input.click() }, icon("attach"), "Import a bundle")

  async function take(file) {
    input.value = "" // so that the same file can be chosen again
    note.replaceChildren()
    try {
      const preview = await (await postBytes("/api/bundles/preview", file)).json()
      const query = await decision(preview)
      if (!query) return
      const { stored: names, kept } = await (await postBytes(`/api/bundles?${query}`, file)).json()
      announce(`${names.length} documents are stored.`)
      await stored()
      note.replaceChildren(h("p", { class: "fine", role: "status", testid: "bundle-result" }, names.length ? `Stored: ${names.join(", ")}. ` : "Nothing was stored. ", kept.length ? `Left as they were: ${kept.join(", ")}.` : ""))
    } catch (error) {
      note.replaceChildren(problem("The bundle was not imported", error.message))
    }
  }

  return [button, input]
}

/** Asks what to do with a bundle: the parameters of the import, or null. */
async function decision({ fingerprint, trusted, documents }) {
  const rows = documents.map(row)
  const unusable = documents.some(({ problems }) => problems.length)
  const words = trusted ? "You have trusted this sender before." : "You have not trusted this sender before. Compare this fingerprint with the one that the sender's “hearth bundles export” has printed, over another way than the file came."
  const content = h("div", { class: "dialog-content" }, h("p", {}, "Signed by ", h("code", { testid: "bundle-fingerprint" }, fingerprint), ". ", words), h("ul", { class: "bundle-list", testid: "bundle-documents" }, rows.map((each) => each.element)), unusable && h("p", { class: "fault" }, "Nothing is stored while a document to store has problems."))
  const actions = [{ name: "store", label: trusted ? "Store" : "Trust and store", kind: "primary" }]
  if ((await openDialog({ title: "Import a bundle", content, actions, close: "Cancel", wide: true })) !== "store") return null
  const query = new URLSearchParams({ trust: fingerprint })
  for (const { name, replaces } of rows) if (replaces()) query.append("replace", name)
  return query
}

function row({ kind, id, state, diff, effects, problems }) {
  const name = `${kind}/${id}`
  const box = state === "changed" && h("input", { type: "checkbox", id: `replace-${name}`, testid: "bundle-replace" })
  const element = h(
    "li",
    { testid: "bundle-document" },
    h("div", { class: "model-title" }, h("h3", {}, name), h("span", { class: "tag" }, STATES[state])),
    effects.length > 0 && h("p", { class: "fine" }, `Its runs: ${effects.map((each) => EFFECTS[each] ?? each).join(", ")}`),
    problems.map((each) => h("p", { class: "fault" }, each)),
    box && h("div", { class: "field tick" }, box, h("label", { for: box.id }, "Replace mine")),
    diff && h("details", {}, h("summary", {}, state === "new" ? "Text" : "Differences"), diffBox(diff, `Text of ${name}`)),
  )
  return { name, element, replaces: () => Boolean(box?.checked) }
}
