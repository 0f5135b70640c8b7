using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.FanoutServers;
using BatchKit.SignalR;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;
using Microsoft.Extensions.DependencyInjection;
using StackExchange.Redis;

namespace BatchKit.Benchmarks.HubNodes;

/// <summary><c>hub isBatchKit node redis prefix</c>: a server with a hub, in a process of its own. All its clients are members of one group.</summary>
internal static class HubNodeCommand
{
    /// <summary>Sends of one loop.</summary>
    public const int Messages = 1000;

    /// <summary>What stands for Redis when the server is alone.</summary>
    public const string Alone = "alone";

    private const string Method = "receive";
    private const int TextBytes = 80;

    // No client is cut off, so that a stuck one stays for the whole run.
    private const int MaxQueuedBytes = 1 << 30;

    private static readonly string Text = new('x', TextBytes);

    // Longer than any run, so that nothing but the messages is sent.
    private static readonly TimeSpan Never = TimeSpan.FromHours(10);

    /// <summary>What one loop is for each client.</summary>
    public static long LoopBytes => (long)Messages * new JsonHubProtocol().GetMessageBytes(new InvocationMessage(Method, [Text])).Length;

    public static async Task<int> RunAsync(bool isBatchKit, int node, string redis, string prefix)
    {
        var pipe = new ControlPipe();
        await using var application = LoopbackApplication.Build(services => Register(services, isBatchKit, node, redis == Alone ? null : redis, prefix));
        application.MapHub<BroadcastHub>("/hub");
        pipe.Reply(await LoopbackApplication.StartAsync(application));
        var group = application.Services.GetRequiredService<IHubContext<BroadcastHub>>().Clients.Group(FanoutCrowd.Everybody);
        var output = application.Services.GetService<OutputBuffer>();
        while (ReadCommand(pipe) is { } sending)
        {
            if (sending < 0)
            {
                pipe.Reply(BroadcastHub.Joined);
                continue;
            }

            var began = Stopwatch.GetTimestamp();
            await SendAsync(group, output, (HubSending)sending);
            pipe.Reply(began, Stopwatch.GetTimestamp());
        }

        return 0;
    }

    private static void Register(IServiceCollection services, bool isBatchKit, int node, string? redis, string prefix)
    {
        var signalR = services.AddSignalR(options => (options.KeepAliveInterval, options.ClientTimeoutInterval) = (Never, 2 * Never));
        if (isBatchKit)
        {
            services.AddBatchKit(options => options.Node = node);
            signalR.AddBatchKit(buffer => UseRedis(buffer, redis, prefix), options => options.MaxQueuedBytes = MaxQueuedBytes);
        }
        else if (redis is not null)
        {
            signalR.AddStackExchangeRedis(redis, options => options.Configuration.ChannelPrefix = RedisChannel.Literal(prefix));
        }
    }

    private static void UseRedis(BatchKitBuilder buffer, string? redis, string prefix)
    {
        if (redis is not null)
            buffer.UseRedis(options => (options.Configuration, options.Prefix) = (redis, prefix)).ReceiveFromRedis(static services => services.GetRequiredService<SignalRTransport>());
    }

    /// <returns>How to send; -1 to tell the number of clients; null to end.</returns>
    private static int? ReadCommand(ControlPipe pipe)
    {
        var command = pipe.Read();
        if (command.IsEmpty)
            return null;
        return ControlPipe.WordAt(command, 0).SequenceEqual("send"u8) ? (int)ControlPipe.NumberAt(command, 1) : -1;
    }

    private static async Task SendAsync(IClientProxy group, OutputBuffer? output, HubSending sending)
    {
        switch (sending)
        {
            case HubSending.Awaited:
                await SendOneByOneAsync(group);
                break;
            case HubSending.WhenAll:
                await Task.WhenAll(Enumerable.Range(0, Messages).Select(_ => group.SendAsync(Method, Text)));
                break;
            default:
                await using (output!.BeginBufferingScope())
                    await SendOneByOneAsync(group);
                break;
        }
    }

    private static async Task SendOneByOneAsync(IClientProxy group)
    {
        for (var message = 0; message < Messages; message++)
            await group.SendAsync(Method, Text);
    }
}
