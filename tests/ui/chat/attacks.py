"""Texts that try to make a page that shows Markdown run a script or ask an address."""

HIT = "window.hit=1"
"""What a script of an attack would do."""

HTML = (
    f"<script>{HIT}</script>",
    f"<SCRIPT SRC=//evil.example/x.js></SCRIPT><script\n>{HIT}</script\n>",
    f"<img src=x onerror={HIT}>",
    f'<img src="//evil.example/p.png" onload="{HIT}">',
    f"<svg onload={HIT}><animate onbegin={HIT} attributeName=x dur=1s></svg>",
    f"<svg><script>{HIT}</script><style><img src=x onerror={HIT}></style></svg>",
    f"<svg><a xlink:href='javascript:{HIT}'><rect width=9 height=9 /></a></svg>",
    f"<svg><use href='data:image/svg+xml,<svg id=x onload={HIT}>#x'></use></svg>",
    f"<math><mtext><table><mglyph><style><!--</style><img title='--><img src=1 onerror={HIT}>'>",
    f"<math><a xlink:href=javascript:{HIT}>x</a>"
    f"<maction actiontype=statusline xlink:href=javascript:{HIT}>",
    f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={HIT}>",
    f"<annotation-xml encoding=text/html><img src=x onerror={HIT}></annotation-xml>",
    f"<iframe src=javascript:{HIT}></iframe><iframe srcdoc='<script>parent.hit=1"
    f"</script>'></iframe>",
    "<object data=//evil.example/o></object><embed src=//evil.example/e>",
    "<link rel=stylesheet href=//evil.example/s.css><style>@import '//evil.example/s.css'</style>",
    "<p style=\"background:url(//evil.example/b.png)\">x</p>",
    "<base href=//evil.example/><a href=x>relative</a>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>",
    f"<form action=//evil.example/ id=f><button formaction=javascript:{HIT}>press</button></form>",
    f"<input autofocus onfocus={HIT}><details open ontoggle={HIT}><summary>x</summary></details>",
    f"<video><source onerror={HIT} src=//evil.example/v></video>"
    f"<audio src=//evil.example/a autoplay>",
    f"<template><img src=x onerror={HIT}></template><noscript><p title='</noscript>"
    f"<img src=x onerror={HIT}>'>",
    f"<textarea><img title='</textarea><img src=x onerror={HIT}>'>",
    "<img name=getElementById><form name=body><input name=attributes><a id=customElements>",
    f"<x-frame contenteditable onblur={HIT}></x-frame><chat-page></chat-page>"
    f"<login-page></login-page>",
    f"<br onclick={HIT}><kbd onmouseover={HIT}>k</kbd><sub style=color:red>s</sub>",
    f"<!--><img src=x onerror={HIT}>--><![CDATA[<img src=x onerror={HIT}>]]><?x "
    f"<img onerror={HIT}>?>",
    f"<body onload={HIT}><marquee onstart={HIT}>x</marquee><isindex action=javascript:{HIT}>",
    f"<a href='javascript:{HIT}' target=_blank>x</a>"
    f"<a href=//evil.example ping=//evil.example>y</a>",
)  # fmt: skip
"""HTML, by namespaces, handlers, addresses, frames, styles, forms, comments and clobbered names."""

LINKS = (
    f"[x](javascript:{HIT})",
    f"[x](JaVaScRiPt:{HIT})",
    f"[x](javascript&colon;{HIT})",
    f"[x](&#106;&#97;vascript:{HIT})",
    f"[x](&#x6A&#x61&#x76&#x61&#x73&#x63&#x72&#x69&#x70&#x74&#x3A;{HIT})",
    f"[x](java\tscript:{HIT})",
    f"[x](<java\nscript:{HIT}>)",
    f"[x](<\x01javascript:{HIT}>)",
    f"[x](vbscript:{HIT})",
    "[x](data:text/html;base64,PHNjcmlwdD5oaXQ9MTwvc2NyaXB0Pg==)",
    "[x](file:///etc/passwd) [y](blob:https://a/b) [z](//evil.example) [r](/api/runs) [h](#/logs)",
    f"<javascript:{HIT}>",
    f"[x][1]\n\n[1]: javascript:{HIT}",
    f"[x](https://evil.example '\" onmouseover=\"{HIT}')",
    f'[x" onclick="{HIT}](https://evil.example/"onclick="{HIT})',
    "![p](https://evil.example/p.png) ![q](//evil.example/q.png) ![d](data:image/svg+xml,<svg/>)",
    f'![x" onerror="{HIT}](x)',
    f"![](javascript:{HIT})",
    f"[![p](https://evil.example/p.png)](javascript:{HIT})",
)
"""Links and pictures of Markdown itself."""

CODE = (
    f'```"><img src=x onerror={HIT}>\ncode\n```',
    f"```html\n</code></pre><script>{HIT}</script><img src=x onerror={HIT}>\n```",
    f"`</code><img src=x onerror={HIT}>`",
    f"| <img src=x onerror={HIT}> | b |\n|---|---|\n| <svg onload={HIT}> | `<script>` |",
    f"# <img src=x onerror={HIT}>\n\n- [ ] <img src=x onerror={HIT}>\n\n> "
    f"<iframe src=//evil.example>",
)
"""Markup where Markdown puts text into an element of its own."""

MATH = (
    rf"$\href{{javascript:{HIT}}}{{x}}$ $\url{{javascript:{HIT}}}$",
    r"$\includegraphics{https://evil.example/p.png}$ $\htmlId{body}{x} \htmlStyle{color:red}{x}$",
    rf"$\htmlData{{x=y}}{{x}} \htmlClass{{a}}{{x}} \text{{<img src=x onerror={HIT}>}}$",
    r"$\def\x{\x\x}\x$ $\fcolorbox{red}{blue}{x} \pmb{y} \boxed{z}$",
    rf"$$</math><img src=x onerror={HIT}>$$",
)
"""Formulas."""

ATTACKS = (*HTML, *LINKS, *CODE, *MATH)
