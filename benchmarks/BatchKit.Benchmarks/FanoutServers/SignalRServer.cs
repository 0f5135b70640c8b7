using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>A SignalR group, in the JSON protocol: the hub serialises once.</summary>
internal sealed class SignalRServer : IFanoutServer
{
    private const string Method = "receive";

    private static readonly string Text = new('x', Payload.Bytes);

    // Longer than any run, so that nothing but the message is sent.
    private static readonly TimeSpan Never = TimeSpan.FromHours(10);

    private readonly WebApplication _application = LoopbackApplication.Build(services => services.AddSignalR(options =>
    {
        options.KeepAliveInterval = Never;
        options.ClientTimeoutInterval = 2 * Never;
    }));

    /// <summary>A message's bytes, as the protocol wraps them.</summary>
    public static int MessageBytes => new JsonHubProtocol().GetMessageBytes(new InvocationMessage(Method, [Text])).Length;

    public int Clients => BroadcastHub.Joined;

    public Task<int> StartAsync()
    {
        _application.MapHub<BroadcastHub>("/hub");
        return LoopbackApplication.StartAsync(_application);
    }

    public void Send(FanoutWorkload workload) => _application.Services.GetRequiredService<IHubContext<BroadcastHub>>()
        .Clients.Group(FanoutCrowd.Everybody).SendAsync(Method, Text).GetAwaiter().GetResult();

    public ValueTask DisposeAsync() => _application.DisposeAsync();
}
