using System.Text;

namespace MudServer.Softcode;

/// <summary>A part of softcode that is parsed once and can be evaluated many times.</summary>
internal abstract class Expression
{
    public abstract void Append(Evaluation evaluation, StringBuilder output);

    public virtual string Evaluate(Evaluation evaluation) => evaluation.Evaluate(this);
}
