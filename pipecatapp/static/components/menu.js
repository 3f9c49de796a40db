import { h } from "../dom.js"

let count = 0

/**
 * A button that opens a menu (ARIA's menu button pattern). Each of `items` is {name, label, kind, act} or, for a link to
 * a file, {name, label, href}. Arrow keys, Home and End move, Escape and Tab close; the button has the focus when an item acts.
 */
export function menuButton({ label, testid, items, children }) {
  count += 1
  const menu = h("div", { id: `menu-${count}`, class: "menu", role: "menu", "aria-label": label, popover: "auto", testid: "menu", onkeydown: key })
  const button = h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, "aria-haspopup": "menu", "aria-expanded": "false", "aria-controls": menu.id, popovertarget: menu.id, testid, onkeydown: (event) => opens(event) }, children)
  menu.append(...items.map((item) => entry(item, button)))
  menu.firstElementChild.autofocus = true // has the focus before the next key, unlike with the event "toggle"
  menu.addEventListener("toggle", ({ newState }) => {
    button.setAttribute("aria-expanded", String(newState === "open"))
    if (newState === "open") place()
  })

  /** Below the button, or above it where there is no room. */
  function place() {
    const at = button.getBoundingClientRect()
    const below = at.bottom + menu.offsetHeight <= innerHeight
    menu.style.top = `${Math.max(0, below ? at.bottom : at.top - menu.offsetHeight)}px`
    menu.style.left = `${Math.max(0, Math.min(at.right - menu.offsetWidth, innerWidth - menu.offsetWidth))}px`
  }

  function opens(event) {
    if (event.key !== "ArrowDown") return
    event.preventDefault()
    menu.showPopover()
  }

  function key(event) {
    const entries = [...menu.children]
    const to = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    const next = to ? entries.at((entries.indexOf(document.activeElement) + to) % entries.length) : { Home: entries[0], End: entries.at(-1) }[event.key]
    if (next) {
      event.preventDefault()
      next.focus()
    } else if (event.key === "Escape" || event.key === "Tab") {
      event.stopPropagation() // the page behind has its own use of Escape
      close(menu, button)
    }
  }

  return [button, menu]
}

function entry({ name, label, kind = "", act, href }, button) {
  const properties = { role: "menuitem", tabindex: "-1", class: `menu-item ${kind}`, testid: `menu-${name}` }
  const leave = ({ currentTarget }) => {
    close(currentTarget.parentElement, button)
    act?.()
  }
  return href ? h("a", { ...properties, href, download: true, onclick: leave }, label) : h("button", { ...properties, type: "button", onclick: leave }, label)
}

function close(menu, button) {
  menu.hidePopover()
  button.focus()
}
