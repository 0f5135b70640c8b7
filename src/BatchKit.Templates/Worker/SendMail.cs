using System.Text.Json.Serialization;
using BatchKit;

namespace MailTasks;

/// <summary>A task: send one mail.</summary>
internal sealed record SendMail(string Address, string Subject)
{
    public const string QueueName = "mails";

    public static OutputHandle Queue { get; } = OutputHandle.Named(QueueName);
}

/// <summary>The tasks as JSON. Add a [JsonSerializable] for each kind of task.</summary>
[JsonSerializable(typeof(SendMail))]
internal sealed partial class TaskJson : JsonSerializerContext;
