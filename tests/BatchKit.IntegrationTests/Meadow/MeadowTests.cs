using System.Collections.Concurrent;
using BatchKit.IntegrationTests.Mud;
using BatchKit.TestServers.Meadow;
using BatchKit.TestServers.Network;
using Microsoft.Playwright;

namespace BatchKit.IntegrationTests.Meadow;

/// <summary>The small game in a browser whose connection is slow: positions are latest values, chat is not.</summary>
[Trait("Lane", "night: a browser opens the page")]
public sealed class MeadowTests(Chromium chromium)
{
    private const int Sheep = 100;

    private static readonly string[] Lines = [.. Enumerable.Range(1, 10).Select(static number => $"line {number}")];

    private readonly ConcurrentQueue<string> _errors = new();

    [Fact]
    public async Task Over_a_slow_connection_every_line_arrives_in_order_and_no_position_is_old()
    {
        var browser = await chromium.GetAsync();
        using var game = await MeadowProcess.StartAsync();
        await using var proxy = TcpProxy.Start("127.0.0.1", game.Page.Port, bufferBytes: 2048);
        await using var context = await browser.NewContextAsync(new() { ViewportSize = new() { Width = 1200, Height = 600 } });
        var near = await OpenAsync(context, game.Page);
        var far = await OpenAsync(context, new UriBuilder(game.Page) { Port = proxy.Port }.Uri);

        // The near page gets some 20 kB a second.
        proxy.BytesPerSecond = 4_000;
        var began = await OldestStepAsync(near);
        foreach (var line in Lines)
        {
            await near.EvaluateAsync("text => socket.send(text)", line);
            await near.Mouse.MoveAsync(100 + (10 * line.Length), 300);
            await WaitAsync(near, "text => [...document.querySelectorAll('li')].some(one => one.textContent === text)", line);
        }

        await WaitAsync(near, "([sheep, step]) => [...Array(sheep).keys()].every(one => places.get(one).step > step)", new[] { Sheep, began + 60 });
        var newest = await OldestStepAsync(near);
        var positions = await far.EvaluateAsync<int>(PositionsUntil, new[] { Sheep, newest });
        await WaitAsync(far, "count => document.querySelectorAll('li').length === count", Lines.Length);

        // Without WriteLatest the client would be some 48 rounds behind. The system's buffers and the proxy's have a few, and the last one comes behind them.
        Assert.InRange(positions, 1, 12 * Sheep);
        Assert.Equal(Lines, await far.EvaluateAsync<string[]>("[...document.querySelectorAll('li')].map(one => one.textContent)"));
        Assert.Equal(Lines, await near.EvaluateAsync<string[]>("[...document.querySelectorAll('li')].map(one => one.textContent)"));
        Assert.True(await far.EvaluateAsync<bool>("[...places.keys()].some(one => one < 0)"));
        Assert.Empty(_errors);
    }

    // Counts the positions that come until each sheep has made a step.
    private const string PositionsUntil = """
        ([sheep, step]) => new Promise(resolve => {
          const late = new Set(Array(sheep).keys());
          let count = 0;
          socket.addEventListener("message", ({ data }) => {
            if (!data.startsWith("@"))
              return;
            count++;
            const [number, made] = data.slice(1).split(" ").map(Number);
            if (made >= step)
              late.delete(number);
            if (late.size === 0)
              resolve(count);
          });
        })
        """;

    private async Task<IPage> OpenAsync(IBrowserContext context, Uri address)
    {
        var page = await context.NewPageAsync();
        page.SetDefaultTimeout((float)Deadline.Time.TotalMilliseconds);
        page.PageError += (_, error) => _errors.Enqueue(error);
        await page.GotoAsync(address.ToString());
        await WaitAsync(page, "sheep => places.size >= sheep", Sheep);
        return page;
    }

    private static Task<int> OldestStepAsync(IPage page) => page.EvaluateAsync<int>("sheep => Math.min(...[...Array(sheep).keys()].map(one => places.get(one).step))", Sheep);

    private static async Task WaitAsync(IPage page, string condition, object argument) => await page.WaitForFunctionAsync(condition, argument);
}
