"use strict";
(() => {
  const drawn = [...document.querySelectorAll("script[data-chart]")].map((source) => ({
    element: document.getElementById(source.dataset.chart),
    ...JSON.parse(source.textContent),
  }));

  function themed(layout) {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = (own) => ({
      ...own,
      gridcolor: color("--line"),
      linecolor: color("--line"),
      zerolinecolor: color("--line"),
    });
    return {
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: color("--ink") },
      hoverlabel: { bgcolor: color("--card"), bordercolor: color("--line"), font: { color: color("--ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: color("--soft"), activecolor: color("--accent") },
      xaxis: axis(layout.xaxis),
      yaxis: axis(layout.yaxis),
    };
  }

  const config = { displaylogo: false, responsive: true, showLink: false, showSendToCloud: false };
  function draw() {
    for (const chart of drawn) Plotly.react(chart.element, chart.data, themed(chart.layout), config);
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
