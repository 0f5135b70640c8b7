using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Net.WebSockets;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.TestHost;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>The first guard: directly where it is safe, by the stream in every other case.</summary>
public sealed class EligibilityTests
{
    private const string Direct = "goes directly to its socket";

    [Theory]
    [InlineData("nothing", Direct)]
    [InlineData("the application's WebSocket middleware", Direct)]
    [InlineData("connection middleware", "through the server's stream: connection middleware")]
    [InlineData("a foreign upgrade", "through the server's stream: the upgrade is not Kestrel's own")]
    [InlineData("an option", "through the server's stream: the endpoint's options say so")]
    public async Task On_plain_HTTP_1_1_output_goes_to_the_socket_directly_unless_something_stands_between(string between, string way)
    {
        await using var host = await WebSocketHost.StartAsync(SetupWith(between));
        using var client = way == Direct ? await RawClient.ConnectAndAnswerAsync(host.EndPoint) : await RawClient.ConnectAsync(host.EndPoint);

        await host.Log.NextAsync(way).WithinDeadline();

        await AssertEchoesAsync(client);
    }

    [Fact]
    public async Task With_TLS_output_goes_through_the_stream()
    {
        using var certificate = SelfSigned();
        await using var host = await StartAsync(listen => listen.UseHttps(certificate));
        using var client = await RawClient.ConnectAsync(host.EndPoint, wrap: plain => EncryptAsync(plain, certificate));

        await host.Log.NextAsync("through the server's stream: the connection is encrypted").WithinDeadline();

        await AssertEchoesAsync(client);
    }

    [Fact]
    public async Task On_a_Unix_socket_output_goes_through_the_stream()
    {
        var path = Path.Combine(Path.GetTempPath(), Path.GetRandomFileName());
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup
        {
            Server = server => server.UseKestrelCore().ConfigureKestrel(kestrel => kestrel.ListenUnixSocket(path)),
        });
        using var client = await RawClient.ConnectAsync(new UnixDomainSocketEndPoint(path));

        await host.Log.NextAsync("through the server's stream: the connection has no TCP socket").WithinDeadline();

        await AssertEchoesAsync(client);
    }

    [Fact]
    public async Task Under_HTTP_2_output_goes_through_the_stream()
    {
        await using var host = await StartAsync(listen => listen.Protocols = HttpProtocols.Http2);
        using var client = new ClientWebSocket();
        client.Options.HttpVersion = HttpVersion.Version20;
        client.Options.HttpVersionPolicy = HttpVersionPolicy.RequestVersionExact;
        using var invoker = new HttpMessageInvoker(new SocketsHttpHandler());
        await client.ConnectAsync(host.WebSocketAddress, invoker, default).WithinDeadline();

        await host.Log.NextAsync("through the server's stream: the request came by HTTP/2").WithinDeadline();

        await AssertEchoesAsync(client);
    }

    [Fact]
    public async Task On_a_test_server_in_memory_messages_go_both_ways_and_closing_is_answered()
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Server = server => server.UseTestServer() });
        using var client = await host.TestServer.CreateWebSocketClient().ConnectAsync(new Uri("ws://localhost/ws"), default).WithinDeadline();

        await AssertEchoesAsync(client);

        await client.CloseAsync(WebSocketCloseStatus.NormalClosure, statusDescription: null, default).WithinDeadline();
        Assert.Equal(WebSocketCloseStatus.NormalClosure, client.CloseStatus);
    }

    [Theory]
    [InlineData(64 * 1024)]
    [InlineData(200_000)]
    public async Task On_a_test_server_in_memory_a_large_message_arrives_whole_and_the_next_one_too(int length)
    {
        await using var host = await WebSocketHost.StartAsync(new WebSocketHostSetup { Server = server => server.UseTestServer() });
        using var client = await host.TestServer.CreateWebSocketClient().ConnectAsync(new Uri("ws://localhost/ws"), default).WithinDeadline();
        var handler = await host.HandlerAsync();

        host.Output.Write(handler.Connection.Handle, new string('x', length));
        host.Output.Write(handler.Connection.Handle, "");
        host.Output.Write(handler.Connection.Handle, "small");

        Assert.Equal(new string('x', length), await ReadTextAsync(client, length));
        Assert.Equal("", await ReadTextAsync(client, length));
        Assert.Equal("small", await ReadTextAsync(client, length));
    }

    [Fact]
    public async Task On_a_test_server_in_memory_an_unauthenticated_client_may_send_no_more_than_the_limit()
    {
        await using var host = await WebSocketHost.StartAsync(
            new WebSocketHostSetup { Server = server => server.UseTestServer(), Options = new BroadcastOptions { MaxUnauthenticatedBytes = 10 } });
        using var client = await host.TestServer.CreateWebSocketClient().ConnectAsync(new Uri("ws://localhost/ws"), default).WithinDeadline();

        await client.SendAsync(new byte[100], WebSocketMessageType.Text, endOfMessage: true, default).WithinDeadline();
        var received = await client.ReceiveAsync(new byte[200].AsMemory(), default).WithinDeadline();

        Assert.Equal((WebSocketMessageType.Close, WebSocketCloseStatus.PolicyViolation), (received.MessageType, client.CloseStatus));
    }

    private static WebSocketHostSetup SetupWith(string between) => between switch
    {
        "the application's WebSocket middleware" => new() { Before = application => application.UseWebSockets() },
        "connection middleware" => new() { Server = WebSocketHostSetup.Kestrel(listen => listen.UseConnectionLogging()) },
        "a foreign upgrade" => new()
        {
            Before = application => application.Use(next => context =>
            {
                context.Features.Set<IHttpUpgradeFeature>(new ForeignUpgrade(context.Features.Get<IHttpUpgradeFeature>()!));
                return next(context);
            }),
        },
        "an option" => new() { Endpoint = { WritesDirectly = false } },
        _ => new(),
    };

    private static Task<WebSocketHost> StartAsync(Action<ListenOptions> listen) =>
        WebSocketHost.StartAsync(new WebSocketHostSetup { Server = WebSocketHostSetup.Kestrel(listen) });

    private static async Task AssertEchoesAsync(RawClient client)
    {
        foreach (var text in new[] { "hello", new string('x', 5000) })
        {
            await client.SendTextAsync(text);

            Assert.Equal(text, await client.ReadTextAsync());
        }
    }

    private static async Task AssertEchoesAsync(WebSocket client)
    {
        foreach (var text in new[] { "hello", new string('x', 5000) })
        {
            await client.SendAsync(Encoding.UTF8.GetBytes(text), WebSocketMessageType.Text, endOfMessage: true, default).WithinDeadline();

            Assert.Equal(text, await ReadTextAsync(client, maxBytes: 5000));
        }
    }

    private static async Task<string> ReadTextAsync(WebSocket client, int maxBytes)
    {
        var buffer = new byte[maxBytes];
        var (length, isEnd) = (0, false);
        while (!isEnd)
        {
            var received = await client.ReceiveAsync(buffer.AsMemory(length), default).WithinDeadline();
            (length, isEnd) = (length + received.Count, received.EndOfMessage);
        }

        return Encoding.UTF8.GetString(buffer, 0, length);
    }

    private static async Task<Stream> EncryptAsync(Stream plain, X509Certificate2 expected)
    {
        var encrypted = new SslStream(plain, leaveInnerStreamOpen: false, (_, presented, _, _) => expected.Equals(presented));
        await encrypted.AuthenticateAsClientAsync("localhost").WithinDeadline();
        return encrypted;
    }

    private static X509Certificate2 SelfSigned()
    {
        using var key = RSA.Create(2048);
        var request = new CertificateRequest("CN=localhost", key, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1);
        return request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(1));
    }

    private sealed class ForeignUpgrade(IHttpUpgradeFeature inner) : IHttpUpgradeFeature
    {
        public bool IsUpgradableRequest => inner.IsUpgradableRequest;

        public Task<Stream> UpgradeAsync() => inner.UpgradeAsync();
    }
}
