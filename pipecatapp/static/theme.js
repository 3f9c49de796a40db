// Runs before the first paint, so that a chosen theme never flashes. Not a module: modules run later.
;(() => {
  const theme = localStorage.getItem("hearth.theme")
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme
})()
