using BatchKit.IntegrationTests.Mud;
using BatchKit.SignalR.Tests.Support;
using Microsoft.AspNetCore.SignalR;
using Microsoft.Playwright;

namespace BatchKit.SignalR.Tests;

/// <summary>The stock client for browsers, in a browser: JSON over WebSockets.</summary>
[Trait("Lane", "night: npm fetches the client")]
public sealed class BrowserTests(Chromium chromium)
{
    private const string Connect = """
        async address => {
          window.texts = [];
          window.connection = new signalR.HubConnectionBuilder().withUrl(address, { transport: signalR.HttpTransportType.WebSockets }).build();
          connection.on("Receive", text => texts.push(text));
          await connection.start();
        }
        """;

    [Fact]
    public async Task What_scopes_send_arrives_in_a_browser_once_in_order_and_in_one_write()
    {
        var browser = await chromium.GetAsync();
        using var client = await NpmClient.FetchAsync();
        await using var server = await HubServer.StartAsync();
        await using var context = await browser.NewContextAsync();
        var page = await OpenAsync(context, server, client);

        await using (server.Output.BeginBufferingScope())
        {
            for (var number = 1; number <= 1000; number++)
                await server.Hub.Clients.All.SendAsync(TestHub.Receive, $"{number}");
        }

        await WaitForTextsAsync(page, 1000);
        Assert.Equal(1, server.Counters.Writes);

        // The same in a hub's method that the page calls.
        await page.EvaluateAsync("() => connection.invoke('Loop', 1000)");
        await WaitForTextsAsync(page, 2000);

        var texts = await page.EvaluateAsync<string[]>("texts");
        Assert.Equal(Enumerable.Range(0, 2000).Select(static index => $"{(index % 1000) + 1}"), texts);
        Assert.Equal(2, server.Counters.Writes);
    }

    private static async Task<IPage> OpenAsync(IBrowserContext context, HubServer server, NpmClient client)
    {
        // The hub answers a plain request with a line of text: a page of its own origin, from which the browser lets scripts connect to this machine.
        var page = await context.NewPageAsync();
        await page.GotoAsync(server.Address.ToString());
        await page.AddScriptTagAsync(new() { Path = client.Script });
        await page.EvaluateAsync(Connect, server.Address.ToString());
        await Until.TrueAsync(() => server.Connections == 1);
        return page;
    }

    private static async Task WaitForTextsAsync(IPage page, int count) =>
        await page.WaitForFunctionAsync("count => texts.length >= count", count, new() { Timeout = (float)Deadline.Time.TotalMilliseconds });
}
