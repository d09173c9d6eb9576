(() => {
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const figures = [...document.querySelectorAll("figure.chart")];
  const box = document.getElementById("tip");

  const tip = {
    show(text, event) {
      box.textContent = text;
      box.hidden = false;
      const size = box.getBoundingClientRect();
      const left = Math.min(event.clientX + 14, window.innerWidth - size.width - 6);
      const below = event.clientY + 16;
      const top = below + size.height > window.innerHeight ? event.clientY - size.height - 10 : below;
      box.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
    },
    hide() {
      box.hidden = true;
    },
  };

  const onScreen = (figure) => Math.max(280, figure.clientWidth);
  // Half of a page, or all of it for a chart that stands alone.
  const onPaper = (figure) => (figure.parentElement.childElementCount > 1 ? 330 : 680);

  function drawAll(width = onScreen) {
    tip.hide();
    for (const figure of figures) {
      Charts.draw(figure, specs[Number(figure.dataset.chart)], width(figure), tip);
    }
  }

  let drawn = 0;
  new ResizeObserver(() => {
    const width = document.body.clientWidth;
    if (width !== drawn) {
      drawn = width;
      drawAll();
    }
  }).observe(document.body);
  drawn = document.body.clientWidth;
  drawAll();

  // The system's theme until the button says otherwise; nothing is stored.
  const root = document.documentElement, button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = () => root.dataset.theme || (system.matches ? "dark" : "light");
  const name = () => {
    button.textContent = theme() === "dark" ? "Light" : "Dark";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  name();
  button.hidden = false; // without a script it would do nothing

  // On paper: every table is open.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const part of folded) part.open = true;
    drawAll(onPaper);
  });
  window.addEventListener("afterprint", () => {
    for (const part of folded) part.open = false;
    drawAll();
  });
})();
