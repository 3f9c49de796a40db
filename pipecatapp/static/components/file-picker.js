import { postBytes } from "../api.js"
import { h } from "../dom.js"
import { bytes } from "../format.js"
import { icon } from "../icons.js"

/**
 * Files that go with a run, chosen or dropped: {element, upload()}. `upload()` stores them and gives their ids by
 * name; it rejects with an Error that names the file which could not be stored.
 */
export function filePicker() {
  const chosen = new Map() // name → {file, id}
  const list = h("ul", { class: "chips", "aria-label": "Files of the run" })
  const input = h("input", { type: "file", multiple: true, hidden: true, testid: "files", onchange: () => add(input.files) })
  const button = h("button", { type: "button", class: "button", onclick: () => input.click() }, icon("attach"), "Add files")
  const element = h("div", { class: "field file-picker", role: "group", "aria-label": "Files" }, h("span", { class: "label" }, "Files", h("span", { class: "fine" }, "optional")), h("p", { class: "hint" }, "The run gets copies and reads them by these names."), list, h("div", {}, button), input)

  function add(files) {
    for (const file of files) chosen.set(file.name, { file, id: null })
    input.value = "" // so that the same file can be chosen again
    show()
  }

  function show() {
    list.replaceChildren(...[...chosen].map(([name, { file }]) => h("li", { class: "chip", testid: "file" }, icon("file"), h("span", { class: "chip-name" }, name), h("span", { class: "fine" }, bytes(file.size)), h("button", { type: "button", class: "icon-button small", "aria-label": `Remove ${name}`, title: "Remove", onclick: () => drop(name) }, icon("cross")))))
  }

  function drop(name) {
    chosen.delete(name)
    show()
    button.focus()
  }

  element.addEventListener("dragover", (event) => {
    event.preventDefault()
    element.dataset.over = "yes"
  })
  element.addEventListener("dragleave", () => delete element.dataset.over)
  element.addEventListener("drop", (event) => {
    event.preventDefault()
    delete element.dataset.over
    add(event.dataTransfer.files)
  })

  async function upload() {
    const found = {}
    for (const [name, each] of chosen) {
      try {
        each.id ??= (await (await postBytes("/api/files", each.file)).json()).id
      } catch (error) {
        throw new Error(`“${name}” could not be sent: ${error.message}`, { cause: error })
      }
      found[name] = each.id
    }
    return found
  }

  return { element, upload }
}
