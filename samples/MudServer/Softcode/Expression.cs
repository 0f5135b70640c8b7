using System.Text;

namespace MudServer.Softcode;

/// <summary>A piece of softcode, parsed once and evaluated as often as a loop likes.</summary>
internal abstract class Expression
{
    public abstract void Append(Evaluation evaluation, StringBuilder output);

    public virtual string Evaluate(Evaluation evaluation) => evaluation.Evaluate(this);
}
