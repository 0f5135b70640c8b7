using System.Buffers;
using System.Text;
using MQTTnet;

namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>One publish at a <see cref="ScriptedClient"/>.</summary>
internal sealed class ScriptedPublish(MqttApplicationMessage message)
{
    private readonly TaskCompletionSource<MqttClientPublishResult> _result = new();

    public MqttApplicationMessage Message => message;

    public Task<MqttClientPublishResult> Task => _result.Task;

    /// <summary>What the payload was when it was published. Its memory is used again once the publish has ended.</summary>
    public string SentText { get; } = Encoding.UTF8.GetString(message.Payload.ToArray());

    /// <summary>What the payload is now.</summary>
    public string Text => Encoding.UTF8.GetString(message.Payload.ToArray());

    /// <summary>What the properties are now.</summary>
    public string[] Properties => [.. message.UserProperties.Select(property => property.ToString())];

    public void Acknowledge(MqttClientPublishReasonCode code = MqttClientPublishReasonCode.Success) => _result.SetResult(Result(code));

    public void Fail(Exception exception) => _result.SetException(exception);

    public static MqttClientPublishResult Result(MqttClientPublishReasonCode code) => new(1, code, null, []);
}
