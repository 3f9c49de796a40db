import { get } from "../api.js"
import { h } from "../dom.js"
import { bytes } from "../format.js"
import { icon } from "../icons.js"
import { problem } from "./notice.js"

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])

/** <run-files>: the files that a run has made or changed, pictures as pictures; on request also the others. */
class RunFiles extends HTMLElement {
  #key = ""
  #all = false

  /** `view` is the run as the server tells it; a new state of the workspace is looked up. */
  show(run, view) {
    const states = view.steps.map((step) => step.facts?.workspace?.after).filter(Boolean)
    const key = JSON.stringify([run, states.at(-1), states.length])
    if (key === this.#key) return
    this.#key = key
    this.run = run
    if (states.length) this.#load()
    else this.hidden = true
  }

  async #load() {
    const key = this.#key
    try {
      const found = await get(`/api/runs/${encodeURIComponent(this.run)}/files${this.#all ? "?all=true" : ""}`)
      if (key === this.#key) this.#list(found)
    } catch (error) {
      this.replaceChildren(problem("The files of the run cannot be listed", error.message))
      this.hidden = false
    }
  }

  #list({ files, total, kept }) {
    this.hidden = kept && !files.length && !this.#all
    const more = h("button", { type: "button", class: "button", "aria-pressed": String(this.#all), testid: "all-files", onclick: this.#toggle }, "Show unchanged files")
    const rest = total > files.length && h("p", { class: "quiet" }, `${(total - files.length).toLocaleString()} more files are not listed.`)
    const nothing = !kept ? "The workspace of this run is not stored here any more." : "The run has no files."
    const list = files.length ? h("ul", { class: "file-list", testid: "run-files" }, files.map((file) => this.#row(file))) : h("p", { class: "quiet" }, nothing)
    this.replaceChildren(h("div", { class: "row" }, h("h2", { id: "files-title" }, "Files"), kept && more), list, ...[rest].filter(Boolean))
  }

  #row({ path, size, type, changed }) {
    const address = `/api/runs/${encodeURIComponent(this.run)}/files/${path.split("/").map(encodeURIComponent).join("/")}`
    const name = path.split("/").at(-1)
    const picture = PICTURES.has(type) && h("a", { class: "file-picture", href: address, target: "_blank", rel: "noopener" }, h("img", { src: address, alt: `Picture ${path}`, loading: "lazy" }))
    return h("li", { class: "file-row", testid: "run-file" }, picture, h("a", { href: address, download: name, title: `Download ${path}` }, icon("file"), path), h("span", { class: "fine" }, bytes(size)), !changed && h("span", { class: "tag" }, "unchanged"))
  }

  #toggle = async () => {
    this.#all = !this.#all
    await this.#load()
    this.querySelector("[data-testid=all-files]")?.focus()
  }
}

customElements.define("run-files", RunFiles)
