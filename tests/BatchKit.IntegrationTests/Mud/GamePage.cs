using System.Collections.Concurrent;
using System.Globalization;
using Microsoft.Playwright;

namespace BatchKit.IntegrationTests.Mud;

/// <summary>The MUD's web page in a browser, as its user sees it.</summary>
internal sealed class GamePage : IAsyncDisposable
{
    // Playwright's own is 5 s: too short for a browser that shares its cores with brokers being killed.
    private const float ExpectMilliseconds = 30_000;

    private readonly IBrowserContext _context;
    private readonly IPage _page;
    private readonly ConcurrentQueue<string> _errors = new();

    private GamePage(IBrowserContext context, IPage page)
    {
        _context = context;
        _page = page;
    }

    /// <summary>What the browser's console showed as a warning or an error, and what scripts threw.</summary>
    public IReadOnlyCollection<string> Errors => _errors;

    public ILocator Prompt => _page.Locator("#prompt");

    public ILocator Connection => _page.Locator("#connection");

    public ILocator About => _page.Locator("#about");

    public ILocator Ratio => _page.Locator("#ratio");

    public ILocator Input => _page.GetByLabel("What you type to the game");

    public ILocator Buffering => _page.GetByRole(AriaRole.Switch, new() { Name = "Buffering" });

    public ILocator Compare => _page.GetByRole(AriaRole.Button, new() { Name = "Compare" });

    public ILocator Comparison => _page.Locator("#comparison");

    public ILocator Loop => _page.GetByRole(AriaRole.Button, new() { Name = "Send 1000 lines" });

    public static async Task<GamePage> OpenAsync(IBrowser browser, Uri address, int width = 1280, int height = 800, bool isPhone = false)
    {
        Assertions.SetDefaultExpectTimeout(ExpectMilliseconds);
        var context = await browser.NewContextAsync(new() { ViewportSize = new() { Width = width, Height = height }, IsMobile = isPhone, HasTouch = isPhone });
        var page = await context.NewPageAsync();
        var game = new GamePage(context, page);
        page.Console += (_, message) =>
        {
            if (message.Type is "error" or "warning")
                game._errors.Enqueue(message.Text);
        };
        page.PageError += (_, error) => game._errors.Enqueue(error);
        await page.GotoAsync(address.ToString());
        await game.WaitForLineAsync("Type \"connect <name>\"");

        // From its first reading of the counters on, the page counts.
        await Assertions.Expect(page.Locator("#process")).ToContainTextAsync("node");
        return game;
    }

    public async Task LoginAsync(string name)
    {
        await TypeAsync($"connect {name}");
        await WaitForLineAsync("Exits: north");
    }

    public async Task TypeAsync(string line)
    {
        await Input.FillAsync(line);
        await Input.PressAsync("Enter");
    }

    /// <summary>Waits until a line that begins so is there, and so many of them.</summary>
    public async Task WaitForLineAsync(string start, int count = 1) => await _page.WaitForFunctionAsync(
        "([start, count]) => [...document.querySelectorAll('#lines > div')].filter(line => line.textContent.startsWith(start)).length >= count",
        new object[] { start, count });

    public Task<string[]> ReadLinesAsync() => _page.EvaluateAsync<string[]>("[...document.querySelectorAll('#lines > div')].map(line => line.textContent)");

    public async Task<int> ReadSendsAsync() =>
        int.Parse((await _page.Locator("#total-sends").TextContentAsync())!, NumberStyles.AllowThousands, CultureInfo.InvariantCulture);

    /// <summary>Waits until the page has counted so much since it was opened.</summary>
    public async Task WaitForTotalAsync(string series, int least) => await _page.WaitForFunctionAsync(
        "([id, least]) => Number(document.getElementById(id).textContent.replaceAll(',', '')) >= least", new object[] { $"total-{series}", least });

    public Task<int> CountBarsAsync() => _page.Locator("#plot .series").CountAsync();

    /// <summary>True when the newest line can be seen.</summary>
    public Task<bool> ShowsNewestLineAsync() => _page.EvaluateAsync<bool>(
        "(() => { const box = document.getElementById('lines'); return box.scrollTop + box.clientHeight >= box.scrollHeight - 1; })()");

    /// <summary>Names what reaches over the screen's edge.</summary>
    public Task<string[]> FindOverflowAsync() => _page.EvaluateAsync<string[]>(
        """
        [...document.querySelectorAll("body *")].filter(element => {
          const box = element.getBoundingClientRect();
          return box.width > 1 && !element.closest("#lines") && (box.right > innerWidth + 0.5 || box.left < -0.5 || box.bottom > innerHeight + 0.5);
        }).map(element => `${element.tagName} ${element.id} ${element.className}`)
        """);

    public Task<T> EvaluateAsync<T>(string expression) => _page.EvaluateAsync<T>(expression);

    public async ValueTask DisposeAsync() => await _context.DisposeAsync();
}
