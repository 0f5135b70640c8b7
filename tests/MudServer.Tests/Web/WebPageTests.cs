using System.Net;
using System.Net.Http.Headers;
using System.Text.RegularExpressions;
using BatchKit.TestServers.Network;
using MudServer.Tests.Support;

namespace MudServer.Tests.Web;

/// <summary>The page as it is served; what it does is tested in a browser.</summary>
public sealed partial class WebPageTests
{
    [Fact]
    public async Task The_page_and_all_that_it_names_are_served_under_a_policy_that_allows_nothing_else()
    {
        await using var mud = await RunningMud.StartAsync();
        using var http = new HttpClient { BaseAddress = mud.Page };

        using var page = await http.GetAsync("/").WithinDeadline();
        var html = await page.Content.ReadAsStringAsync();

        Assert.Equal("text/html", page.Content.Headers.ContentType?.MediaType);
        Assert.StartsWith("default-src 'none'; script-src 'self';", Assert.Single(page.Headers.GetValues("Content-Security-Policy")), StringComparison.Ordinal);
        var names = Named.Matches(html).Select(name => name.Groups["name"].Value).Distinct(StringComparer.Ordinal).ToArray();
        Assert.Contains("page.js", names);
        foreach (var name in names)
        {
            using var file = await http.GetAsync(new Uri(name, UriKind.Relative)).WithinDeadline();
            Assert.Equal(HttpStatusCode.OK, file.StatusCode);
            Assert.Equal("nosniff", Assert.Single(file.Headers.GetValues("X-Content-Type-Options")));
        }
    }

    [Fact]
    public async Task A_browser_that_has_the_newest_is_told_so()
    {
        await using var mud = await RunningMud.StartAsync();
        using var http = new HttpClient { BaseAddress = mud.Page };
        using var first = await http.GetAsync("/page.css").WithinDeadline();
        http.DefaultRequestHeaders.IfNoneMatch.Add(EntityTagHeaderValue.Parse(first.Headers.ETag!.ToString()));

        using var second = await http.GetAsync("/page.css").WithinDeadline();

        Assert.Equal(HttpStatusCode.NotModified, second.StatusCode);
    }

    [Fact]
    public async Task A_game_without_clients_shows_its_counters_instead()
    {
        await using var mud = await RunningMud.StartAsync("--role", "game", "--rabbitmq", $"amqp://127.0.0.1:{FreePort.Take(1)[0]}/");
        using var handler = new HttpClientHandler { AllowAutoRedirect = false };
        using var http = new HttpClient(handler) { BaseAddress = mud.Page };

        using var start = await http.GetAsync("/").WithinDeadline();
        using var play = await http.GetAsync("/play").WithinDeadline();

        Assert.Equal("/stats", start.Headers.Location?.ToString());
        Assert.Equal(HttpStatusCode.NotFound, play.StatusCode);
    }

    [GeneratedRegex("(href|src)=\"(?<name>[a-z]+\\.[a-z]+)\"", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex Named { get; }
}
