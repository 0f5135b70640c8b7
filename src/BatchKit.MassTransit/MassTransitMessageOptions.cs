using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.MassTransit;

/// <summary>Settings of a route that sends the application's own messages. A value outside its range makes the start fail; the error names the setting.</summary>
public sealed class MassTransitMessageOptions
{
    /// <summary>Returns the address that a handle's messages are sent to, such as <c>_ => new Uri("queue:telnet-output")</c>. Null, the default, publishes them.</summary>
    /// <remarks>A batch is refused alone when it throws, or returns null or an address that the bus does not have.</remarks>
    public Func<OutputHandle, Uri>? SendTo { get; set; }

    /// <summary>
    /// Is called in the message's scope of the services after the message was handed to the bus; null by default. With MassTransit's bus outbox, save the <c>DbContext</c> here:
    /// <c>(services, cancellationToken) => services.GetRequiredService&lt;GameContext&gt;().SaveChangesAsync(cancellationToken)</c>.
    /// </summary>
    public Func<IServiceProvider, CancellationToken, Task>? Complete { get; set; }

    /// <summary>The time limit of a message's confirm; 5 s by default. After that the send fails, and the buffer retries it. MassTransit itself has no limit and keeps trying until its token is cancelled.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan PublishTimeout { get; set; } = TimeSpan.FromSeconds(5);
}

/// <summary>Checks the options' attributes, in generated code.</summary>
[OptionsValidator]
internal sealed partial class MassTransitMessageOptionsValidator : IValidateOptions<MassTransitMessageOptions>;
