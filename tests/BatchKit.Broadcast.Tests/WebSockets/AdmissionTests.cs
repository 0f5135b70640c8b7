using System.Net;
using System.Net.WebSockets;
using System.Security.Claims;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Options;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>Who may connect, and what the others are told.</summary>
public sealed class AdmissionTests
{
    [Theory]
    [InlineData("http://localhost", true)]
    [InlineData("http://LOCALHOST", true)]
    [InlineData("http://localhost:80", true)]
    [InlineData("https://localhost", false)]
    [InlineData("ftp://localhost", false)]
    [InlineData("http://localhost/page", false)]
    [InlineData("https://localhost:8443", false)]
    [InlineData("https://evil.example", false)]
    [InlineData("https://localhost.evil.example", false)]
    [InlineData("null", false)]
    public Task By_default_only_pages_of_the_same_host_may_connect(string origin, bool isAllowed) =>
        AssertMayConnectAsync(new WebSocketHostSetup(), origin, isAllowed);

    [Theory]
    [InlineData("https://play.example", "https://play.example", true)]
    [InlineData("https://play.example", "HTTPS://Play.Example", true)]
    [InlineData("https://play.example", "http://play.example", false)]
    [InlineData("https://play.example", "https://other.example", false)]
    [InlineData("*", "https://any.example", true)]
    public Task Pages_of_listed_origins_may_connect(string allowed, string origin, bool isAllowed) =>
        AssertMayConnectAsync(new WebSocketHostSetup { Endpoint = { AllowedOrigins = { allowed } } }, origin, isAllowed);

    [Theory]
    [InlineData(nameof(WebSocketEndpointOptions.AllowedOrigins))]
    [InlineData(nameof(WebSocketEndpointOptions.SubProtocols))]
    public async Task A_list_with_null_is_refused_where_it_is_mapped(string setting)
    {
        var endpoint = new WebSocketEndpointOptions();
        (setting == nameof(endpoint.AllowedOrigins) ? endpoint.AllowedOrigins : endpoint.SubProtocols).Add(null!);

        var failure = await Assert.ThrowsAsync<OptionsValidationException>(() => WebSocketHost.StartAsync(new WebSocketHostSetup { Endpoint = endpoint }));

        Assert.Equal($"WebSocketEndpointOptions.{setting} must not contain null.", failure.Message);
    }

    [Theory]
    [InlineData("http://play.example", true)]
    [InlineData("https://play.example", true)]
    [InlineData("https://a.mud.example", true)]
    [InlineData("ftp://play.example", false)]
    [InlineData("https://localhost", true)]
    [InlineData("http://evil.example", false)]
    public async Task Pages_of_the_hosts_that_the_application_serves_may_connect(string origin, bool isAllowed)
    {
        var setup = new WebSocketHostSetup { Configuration = { ["AllowedHosts"] = "localhost;play.example;*.mud.example" } };
        await using var host = await WebSocketHost.StartAsync(setup);
        using var client = await RawClient.ConnectAsync(host.EndPoint, $"Origin: {origin}\r\n");

        Assert.StartsWith(isAllowed ? "HTTP/1.1 101 " : "HTTP/1.1 403 ", client.Head);
        Assert.DoesNotContain("accepts any host", host.Log.Text);
    }

    [Theory]
    [InlineData("localhost:4001", "http://localhost:4001", true)]
    [InlineData("localhost:4001", "https://localhost:4001", true)]
    [InlineData("localhost:4001", "http://localhost:3000", false)]
    [InlineData("localhost:4001", "http://localhost", false)]
    [InlineData("localhost", "http://localhost", true)]
    [InlineData("localhost", "https://localhost", true)]
    [InlineData("localhost", "http://localhost:3000", false)]
    [InlineData("gateway.example:4001", "https://play.example", true)]
    [InlineData("gateway.example:4001", "https://play.example:4001", true)]
    [InlineData("gateway.example:4001", "https://play.example:3000", false)]
    public Task A_page_of_an_allowed_host_has_the_requests_port_too(string host, string origin, bool isAllowed) =>
        AssertMayConnectAsync(new WebSocketHostSetup { Configuration = { ["AllowedHosts"] = "localhost;play.example;gateway.example" } }, origin, isAllowed, host);

    [Fact]
    public async Task An_endpoint_that_was_told_neither_origins_nor_hosts_says_at_the_start_what_to_set()
    {
        await using var host = await WebSocketHost.StartAsync();

        Assert.Contains("accepts any host that a request names. Set its AllowedOrigins, or AllowedHosts", host.Log.Text);
    }

    [Fact]
    public async Task A_request_that_is_no_WebSocket_is_told_what_to_upgrade_to()
    {
        await using var host = await WebSocketHost.StartAsync();
        using var http = new HttpClient();

        using var response = await http.GetAsync(new Uri(host.Address, "/ws")).WithinDeadline();

        Assert.Equal(HttpStatusCode.UpgradeRequired, response.StatusCode);
        Assert.Contains("websocket", response.Headers.Upgrade.ToString());
        Assert.Equal("13", Assert.Single(response.Headers.GetValues("Sec-WebSocket-Version")));
        Assert.Contains("WebSocket", await response.Content.ReadAsStringAsync());
    }

    [Fact]
    public async Task A_version_that_is_not_13_is_told_which_one_to_speak()
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.OpenAsync(host.EndPoint);

        await client.SendAsync("GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 8\r\n\r\n"u8.ToArray());
        await client.ReadHeadAsync();

        Assert.StartsWith("HTTP/1.1 426 ", client.Head);
        Assert.Contains("Sec-WebSocket-Version: 13", client.Head);
    }

    [Fact]
    public async Task Compression_is_refused()
    {
        await using var host = await WebSocketHost.StartAsync();
        using var client = await RawClient.ConnectAsync(host.EndPoint, "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n");

        Assert.StartsWith("HTTP/1.1 101 ", client.Head);
        Assert.DoesNotContain("Sec-WebSocket-Extensions", client.Head);
    }

    [Theory]
    [InlineData("b, c", "c")]
    [InlineData("a", "a")]
    [InlineData("x", null)]
    public async Task The_servers_first_sub_protocol_that_the_client_offers_is_agreed_on(string offered, string? agreed)
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Endpoint = { SubProtocols = { "a", "c" } } });
        using var client = await RawClient.ConnectAsync(host.EndPoint, $"Sec-WebSocket-Protocol: {offered}\r\n");

        Assert.StartsWith("HTTP/1.1 101 ", client.Head);
        Assert.Equal(agreed is not null, client.Head.Contains($"Sec-WebSocket-Protocol: {agreed}"));
    }

    [Theory]
    [InlineData(null, "HTTP/1.1 401 ")]
    [InlineData(402, "HTTP/1.1 402 ")]
    public async Task The_hook_may_refuse(int? status, string expected)
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup
        {
            Endpoint =
            {
                Authenticate = context =>
                {
                    context.Response.StatusCode = status ?? context.Response.StatusCode;
                    return ValueTask.FromResult(context.Request.Headers.ContainsKey("X-Secret"));
                },
            },
        });
        using var refused = await RawClient.ConnectAsync(host.EndPoint);
        using var admitted = await RawClient.ConnectAsync(host.EndPoint, "X-Secret: yes\r\n");

        Assert.StartsWith(expected, refused.Head);
        Assert.StartsWith("HTTP/1.1 101 ", admitted.Head);
    }

    [Fact]
    public async Task The_requests_user_is_the_connections()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup
        {
            Before = application => application.Use(next => context =>
            {
                context.User = new ClaimsPrincipal(new ClaimsIdentity([new Claim(ClaimTypes.Name, "ann")], "test"));
                return next(context);
            }),
        });
        using var client = await RawClient.ConnectAsync(host.EndPoint);

        var handler = await host.HandlerAsync();

        Assert.Equal("ann", handler.Connection.User!.Identity!.Name);
        Assert.True(handler.Connection.IsAuthenticated);
    }

    [Fact]
    public async Task A_request_without_a_user_has_an_anonymous_one()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup());
        using var client = await RawClient.ConnectAsync(host.EndPoint);

        var handler = await host.HandlerAsync();

        Assert.False(handler.Connection.User!.Identity!.IsAuthenticated);
        Assert.False(handler.Connection.IsAuthenticated);
        Assert.Equal(IPAddress.Loopback, handler.Connection.RemoteEndPoint!.Address);
    }

    [Fact]
    public async Task One_more_than_there_is_room_for_gets_503_and_a_place_that_is_given_back_is_taken_again()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Options = new BroadcastOptions { MaxConnections = 1 } });
        var first = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        using var second = await RawClient.ConnectAsync(host.EndPoint);
        Assert.StartsWith("HTTP/1.1 503 ", second.Head);

        first.Dispose();
        await host.EveryoneGoneAsync();
        using var third = await RawClient.ConnectAsync(host.EndPoint);

        Assert.StartsWith("HTTP/1.1 101 ", third.Head);
    }

    [Fact]
    public async Task An_address_has_its_place_back_when_the_handler_of_its_client_has_ended_and_not_before()
    {
        var ending = new TaskCompletionSource();
        var setup = new WebSocketHostSetup { Options = new BroadcastOptions { MaxConnections = 1 }, Handlers = (connection, output) => new LingeringHandler(connection, output, ending.Task) };
        await using var host = await WebSocketHost.StartAsync(setup);
        (await RawClient.ConnectAndAnswerAsync(host.EndPoint)).Dispose();
        await Until.TrueAsync(() => host.Transport.Connections is { Places: 0, Lingering: 1 });

        using var early = await RawClient.ConnectAsync(host.EndPoint);
        var gone = host.EveryoneGoneAsync();
        var isGoneBefore = gone.IsCompleted;
        ending.SetResult();
        await gone;
        using var late = await RawClient.ConnectAsync(host.EndPoint);

        Assert.StartsWith("HTTP/1.1 503 ", early.Head);
        Assert.False(isGoneBefore);
        Assert.StartsWith("HTTP/1.1 101 ", late.Head);
    }

    [Fact]
    public async Task A_node_that_stops_accepting_turns_further_clients_away_and_serves_those_that_it_has()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup());
        using var first = await RawClient.ConnectAndAnswerAsync(host.EndPoint);
        var handler = await host.HandlerAsync();

        host.Transport.StopAccepting();
        using var second = await RawClient.ConnectAsync(host.EndPoint);
        host.Output.Write(handler.Connection.Handle, "still here");

        Assert.StartsWith("HTTP/1.1 503 ", second.Head);
        Assert.Equal("still here", await first.ReadTextAsync());
    }

    [Fact]
    public async Task The_limit_for_an_address_counts_the_clients_own_behind_a_trusted_proxy()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup
        {
            Options = new BroadcastOptions { MaxConnectionsPerAddress = 1, TrustedProxies = { IPNetwork.Parse("127.0.0.0/8") } },
        });
        using var one = await RawClient.ConnectAsync(host.EndPoint, "X-Forwarded-For: 203.0.113.1\r\n");
        using var other = await RawClient.ConnectAsync(host.EndPoint, "X-Forwarded-For: 203.0.113.2\r\n");
        using var again = await RawClient.ConnectAsync(host.EndPoint, "X-Forwarded-For: 203.0.113.1\r\n");

        Assert.StartsWith("HTTP/1.1 101 ", one.Head);
        Assert.StartsWith("HTTP/1.1 101 ", other.Head);
        Assert.StartsWith("HTTP/1.1 503 ", again.Head);
    }

    [Theory]
    [InlineData("127.0.0.0/8", "203.0.113.9", "203.0.113.9", true)]
    [InlineData("127.0.0.0/8", "198.51.100.1, 203.0.113.9", "203.0.113.9", true)]
    [InlineData("127.0.0.0/8", "203.0.113.9, 127.0.0.2", "203.0.113.9", true)]
    [InlineData("127.0.0.0/8", "203.0.113.9:4711", "203.0.113.9", true)]
    [InlineData("127.0.0.0/8", "[2001:db8::1]:4711", "2001:db8::1", true)]
    [InlineData("127.0.0.0/8", "2001:db8::1", "2001:db8::1", true)]
    [InlineData("127.0.0.0/8", "203.0.113.9, unknown", "127.0.0.1", true)]
    [InlineData("127.0.0.0/8", "", "127.0.0.1", true)]
    [InlineData("10.0.0.0/8", "203.0.113.9", "127.0.0.1", false)]
    public async Task Only_a_trusted_proxys_word_on_the_client_is_taken(string trusted, string forwardedFor, string expected, bool isSecure)
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Options = new BroadcastOptions { TrustedProxies = { IPNetwork.Parse(trusted) } } });
        using var client = await RawClient.ConnectAsync(host.EndPoint, $"X-Forwarded-For: {forwardedFor}\r\nX-Forwarded-Proto: https\r\n");

        var handler = await host.HandlerAsync();

        Assert.Equal(IPAddress.Parse(expected), handler.Connection.RemoteEndPoint!.Address);
        Assert.Equal(isSecure, handler.Connection.IsSecure);
    }

    private static async Task AssertMayConnectAsync(WebSocketHostSetup setup, string origin, bool isAllowed, string host = "localhost")
    {
        await using var server = await WebSocketHost.StartAsync(setup);
        using var client = await RawClient.ConnectAsync(server.EndPoint, $"Origin: {origin}\r\n", host: host);

        Assert.StartsWith(isAllowed ? "HTTP/1.1 101 " : "HTTP/1.1 403 ", client.Head);
    }

    private sealed class LingeringHandler(ClientConnection connection, IOutputBuffer output, Task ending) : EchoHandler(connection, output)
    {
        public override async ValueTask EndAsync(DisconnectReason reason)
        {
            await ending;
            await base.EndAsync(reason);
        }
    }
}
