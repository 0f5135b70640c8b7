using Grpc.Core;
using Grpc.Net.Client;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Streams;

namespace BatchKit.Pages.Tests.Grpc;

/// <summary>The program of docs/grpc.md, with a real server and a real client.</summary>
public sealed class GameServiceTests : IAsyncLifetime
{
    private const long Id = 7;

    private readonly WebApplication _server = Create();

    private IOutputBuffer Output => _server.Services.GetRequiredService<IOutputBuffer>();

    public async ValueTask InitializeAsync() => await _server.StartAsync().WithinDeadline();

    public async ValueTask DisposeAsync() => await _server.DisposeAsync();

    [Fact]
    public async Task A_scope_is_one_message_on_the_stream_with_all_lines_in_order()
    {
        using var channel = GrpcChannel.ForAddress(_server.Urls.Single());
        using var listening = new Game.GameClient(channel).Listen(new Player { Id = Id });

        Assert.True(await listening.ResponseStream.MoveNext(TestContext.Current.CancellationToken).WithinDeadline());
        Assert.Equal(Enumerable.Range(1, 1000).Select(line => $"line {line}"), listening.ResponseStream.Current.Lines.Select(line => line.ToStringUtf8()));
    }

    [Fact]
    public async Task Output_for_a_player_who_is_gone_is_refused()
    {
        using var channel = GrpcChannel.ForAddress(_server.Urls.Single());
        using (var listening = new Game.GameClient(channel).Listen(new Player { Id = Id }))
            Assert.True(await listening.ResponseStream.MoveNext(TestContext.Current.CancellationToken).WithinDeadline());

        await Until.TrueAsync(async () => await Record.ExceptionAsync(() => WriteAsync("lost")) is OutputDeliveryException);
    }

    private async Task WriteAsync(string text)
    {
        var scope = Output.BeginBufferingScope(OutputHandle.Connection(Id));
        Output.Write(OutputHandle.Connection(Id), text);
        await scope.DisposeAsync().WithinDeadline();
    }

    private static WebApplication Create()
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseUrls("http://127.0.0.1:0").ConfigureKestrel(kestrel => kestrel.ConfigureEndpointDefaults(endpoint => endpoint.Protocols = HttpProtocols.Http2));
        builder.Services.AddGrpc();
        builder.Services.AddSingleton<StreamTransport>();
        builder.Services.AddBatchKit().UseLocal(static services => services.GetRequiredService<StreamTransport>());
        var server = builder.Build();
        server.MapGrpcService<GameService>();
        return server;
    }
}
